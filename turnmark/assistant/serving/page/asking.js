"use strict";
// Requests to the server, and the stream of an answer.

class Refused extends Error {}

// Returns what the user is told about an error.
function messageOf(error) {
  return error instanceof Refused ? error.message : "The server cannot be reached. Check that it is running, then try again.";
}

async function ask(question) {
  const controller = new AbortController(), asked = model.id;
  setRunning(controller);  // before the turn is drawn, since it hides what would move the turn
  const turn = new Turn(question);
  announce("Thinking");
  try {
    const { id, reply } = await streamReply(turn, asked, question, controller.signal);
    turn.stored = { id, model: asked, question, reply, rating: "" };
    conversation.turns.push(turn.stored);
    save(conversation);
    turn.finish(reply);
    announce(`Answered: ${reply.answer}`.slice(0, 400));
  } catch (error) {
    const left = controller.signal.aborted;
    let message = left ? "Stopped." : messageOf(error);
    if (error.status === 404 && await loadModels()) {  // the server was started again with other indexes
      chooseModel(conversation.model);
      message = `The server no longer offers that model. Try again to ask ${$("models").title}.`;
    }
    turn.failed(message, left, () => ask(question));
    if (error.status === 401) await askForToken(true);
  } finally {
    setRunning(null);
  }
}

async function streamReply(turn, asked, question, signal) {
  // The server uses only the last messages of a long conversation.
  const messages = [...pastMessages(conversation), { role: "user", content: question }].slice(-101);
  const body = { model: asked, messages, stream: true, turnmark: { events: true, footnotes: false } };
  const answer = await fetch("v1/chat/completions", {
    method: "POST", signal, body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...tokenHeader() },
  });
  if (!answer.ok) throw await errorOf(answer);
  let reply = null, id = "";
  for await (const said of events(answer.body)) {
    if (said === "[DONE]") break;
    const chunk = JSON.parse(said);
    if (chunk.error) throw new Refused(chunk.error.message);
    const ours = chunk.turnmark;
    id = chunk.id;
    if (ours && ours.event) turn.event(ours.event);
    else if (ours) reply = ours;
  }
  if (!reply) throw new Refused("The connection ended before the answer was complete.");
  return { id, reply };
}

// Requests something other than an answer; asks for the token if the server refuses it.
async function request(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...options.headers, ...tokenHeader() } });
  if (answer.ok) return answer;
  const error = await errorOf(answer);
  if (error.status === 401) await askForToken(true);
  throw error;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const said = rest.slice(0, end);
      if (said.startsWith("data: ")) yield said.slice(6);
    }
  }
}

async function errorOf(answer) {
  let said = `The server reported an error (status ${answer.status}).`;
  try { said = (await answer.json()).error.message; } catch { /* the error is not from Turnmark */ }
  const wait = answer.headers.get("Retry-After");
  said = said[0].toUpperCase() + said.slice(1);
  const error = new Refused(answer.status === 429 && wait ? `${said} (try again in about ${wait} s)` : said);
  error.status = answer.status;
  return error;
}

function tokenHeader() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}
