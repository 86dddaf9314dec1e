-- Converts pandoc's document to one that the Markdown reader understands: the visible words and structure, without
-- styles. Tables become simple tables, and vertically merged cells are repeated in every row.

local stringify = pandoc.utils.stringify

-- Match text that would be markup at the beginning of a line. Pandoc escapes it.
local function begins_block(text)
  return text:match('^[#>+*%-=~`|:]') or text:match('^%d+[.)]') or text:match('^%a[.)]$')
end

-- Escape only what the Markdown reader would read as HTML, code or an escape. Pandoc escapes every character that could
-- be markup anywhere, and quotations would be full of backslashes.
local function lightly_escaped(text)
  text = text:gsub('\\(%p)', '\\\\%1'):gsub('`', '\\`'):gsub('<([%a/!?])', '\\<%1')
  return pandoc.RawInline('markdown', text)
end

-- Return whether an inline begins a line; spaces before it are not written.
local function begins_line(inlines, index)
  local before = index - 1
  while before > 0 and inlines[before].t == 'Space' do before = before - 1 end
  return before == 0 or inlines[before].t == 'LineBreak'
end

local function words_of(inlines)
  local result = pandoc.List()
  for index, inline in ipairs(inlines) do
    if inline.t == 'Str' and (inline.text:match('[\\`*_%[%]<>$~^\'"&@!{}#|]') or inline.text:match('^%(')) then
      local starts = begins_line(inlines, index)
      result:insert((starts and begins_block(inline.text)) and inline or lightly_escaped(inline.text))
    elseif inline.t == 'Code' and #result > 0 and result[#result].t == 'Code' then  -- a link may be a part of code
      result[#result] = pandoc.Code(result[#result].text .. inline.text)
    else
      result:insert(inline)
    end
  end
  return result
end

local function ends_in_digit(inline)
  return inline and inline.t == 'Str' and inline.text:match('%d$')
end

local function is_mark_text(words)
  words = words:match('^%s*[%[(]?(.-)[%])]?%s*$'):gsub('–', ','):gsub('[%]%[;-]', ',')
  if words == '' then return false end
  for part in (words .. ','):gmatch('([^,]*),') do
    part = part:match('^%s*(.-)%s*$'):gsub('^note%.?%s', ''):gsub('^nb%.?%s', ''):gsub('^fn%.?%s', '')
    if part ~= '' and not (part:match('^%d%d?%d?$') or part:match('^%l$') or part:match('^[*†‡§¶]+$')) then return false end
  end
  return words:match('[^,%s]') ~= nil
end

-- Return whether a class or role says that an element is a footnote mark.
local function says_note(element)
  local names = pandoc.List(element.classes)
  names:insert(element.attributes.role or '')
  return names:find_if(function(name)
    name = name:lower():gsub('[-_]', ''):gsub('^mso', ''):gsub('^doc', '')
    return name == 'noteref' or name == 'fnref' or name:match('^footnote') or name:match('^endnote')
  end) ~= nil
end

local function leads_to_note(link)
  local fragment = link.target:match('#(.*)') or link.target
  fragment = fragment:lower():gsub('%-', '_')
  for _, name in ipairs({'ftn', 'edn', 'fn', 'note'}) do
    if ('_' .. fragment):match('_' .. name .. '%l?%l?%l?[_:.]?%d') or fragment:match('footnote_?%d') then return true end
  end
  return false
end

local function is_note_mark(inline, before)
  if inline.t ~= 'Superscript' and inline.t ~= 'Link' and inline.t ~= 'Span' then return false end
  if not is_mark_text(stringify(inline)) then return false end
  local is_linked, is_raised, is_note, is_told = false, false, true, false
  pandoc.Inlines({inline}):walk({
    Link = function(link)
      is_linked = is_linked or link.target:find('#', 1, true) ~= nil
      is_note = is_note and leads_to_note(link)
      is_told = is_told or says_note(link)
    end,
    Superscript = function() is_raised = true end,
    Span = function(span) is_told = is_told or says_note(span) end,
  })
  return is_told or (is_linked and (is_raised or (is_note and before and before.t == 'Str')))
end

local function is_raised_span(inline)
  if inline.t ~= 'Span' then return false end
  local classes = inline.classes
  if classes:includes('sup') or classes:includes('super') or classes:includes('superscript') then return true end
  return (inline.attributes.style or ''):lower():match('vertical%-align%s*:%s*super') ~= nil
end

local function is_raised_mark(inline)
  return inline and inline.t == 'Superscript' and is_mark_text(stringify(inline))
end

-- Remove footnote marks. They would join the number before them: "2019" and mark 3 would become 20193. Raised
-- punctuation between two marks is removed with them, and so is a mark that is typed before its note.
local function without_note_marks(inlines)
  local result, removed = pandoc.Inlines({}), false
  for index, inline in ipairs(inlines) do
    local following = inlines[index + 1]
    local is_typed = is_raised_mark(inline) and following and following.t == 'Note'
    if is_typed or is_note_mark(inline, inlines[index - 1]) then
      removed = true
    elseif not (removed and inline.t == 'Superscript' and stringify(inline):match('^[,;]%s*$')) then
      removed = false
      result:insert(is_raised_span(inline) and pandoc.Superscript(inline.content) or inline)
    end
  end
  return result
end

local function without_note_number(note)
  local first = note.content[1]
  if first and first.content and is_raised_mark(first.content[1]) then
    first.content:remove(1)
    if first.content[1] and first.content[1].t == 'Space' then first.content:remove(1) end
  end
  return note
end

-- Write "10" with a superscript "6" as 10^6, not 106, and "1" with a raised numerator as 1 1/2.
local function raised(inlines)
  -- A note below a table begins with its mark.
  if is_raised_mark(inlines[1]) and inlines[2] and inlines[2].t == 'Str' then inlines:insert(2, pandoc.Space()) end
  for index, inline in ipairs(inlines) do
    if inline.t == 'Superscript' and stringify(inline):match('^[-−+]?%d+$') and ends_in_digit(inlines[index - 1]) then
      local following = inlines[index + 1]
      local is_fraction = following and following.t == 'Str' and following.text:match('^/')
      inlines[index] = pandoc.Str((is_fraction and ' ' or '^') .. stringify(inline))
    end
  end
  return inlines
end

local function role_words(text)
  text = text:gsub('\\(%p)', '%1')
  local shown = text:match('^(.-)%s*<[^<>]*>$')
  if shown and shown ~= '' then return shown end
  if text:sub(1, 1) == '~' then return text:match('([^.]+)$') or text end
  return (text:gsub('^!', ''))
end

local function spaced_words(text)
  local result = pandoc.List()
  for word in text:gmatch('%S+') do
    if #result > 0 then result:insert(pandoc.Space()) end
    result:insert(pandoc.Str(word))
  end
  return result
end

local function without_strong(inlines)
  return inlines:walk({Strong = function(strong) return strong.content end})
end

local function begins_with_heading(blocks)
  local first = blocks[1]
  if not first then return false end
  if first.t == 'Header' then return true end
  return (first.t == 'OrderedList' or first.t == 'BulletList') and begins_with_heading(first.content[1] or {})
end

-- Unwrap headings from lists: word processors write numbered headings as items of nested lists.
local function without_heading_lists(blocks)
  local result = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    local is_list = block.t == 'OrderedList' or block.t == 'BulletList'
    local heads = false
    for _, item in ipairs(is_list and block.content or {}) do heads = heads or begins_with_heading(item) end
    if heads then
      for _, item in ipairs(block.content) do result:extend(without_heading_lists(item)) end
    else
      result:insert(block)
    end
  end
  return result
end

-- `opendocument.py` marks each paragraph in a fixed-width font with this character.
local CODE = utf8.char(0xF8F0)

local function code_lines(block)
  if block.t ~= 'Para' and block.t ~= 'Plain' then return nil end
  local words = stringify(block.content:walk({LineBreak = function() return pandoc.Str('\n') end}))
  if words:sub(1, #CODE) == CODE then return words:sub(#CODE + 1) end
  return words:match('^%$ [%a_./~].*')  -- a command after a shell prompt
end

-- Join consecutive paragraphs of code into one code block.
local function with_code(blocks)
  local result, lines = pandoc.Blocks({}), nil
  local function close()
    local code = lines and table.concat(lines, '\n'):gsub('%s+$', ''):gsub('^\n+', '') or ''
    if code ~= '' then result:insert(pandoc.CodeBlock(code)) end
    lines = nil
  end
  local function take(block)
    local line = code_lines(block)
    local is_quoted = block.t == 'BlockQuote' and block.content:find_if(function(inner) return not code_lines(inner) end) == nil
    if line then
      lines = lines or {}
      table.insert(lines, (line:gsub('%s+$', '')))
    elseif is_quoted then  -- indented
      for _, inner in ipairs(block.content) do take(inner) end
    else
      close()
      result:insert(block)
    end
  end
  for _, block in ipairs(blocks) do take(block) end
  close()
  return result
end

-- Return the number of links to this document in a list; nil if the list contains anything else.
local function links_of(list)
  local count = 0
  for _, item in ipairs(list.content) do
    for _, block in ipairs(item) do
      if block.t == 'BulletList' or block.t == 'OrderedList' then
        local inner = links_of(block)
        if not inner then return nil end
        count = count + inner
      else
        local link = (block.t == 'Plain' or block.t == 'Para') and #block.content == 1 and block.content[1]
        if not link or link.t ~= 'Link' or link.target:sub(1, 1) ~= '#' then return nil end
        count = count + 1
      end
    end
  end
  return count
end

-- Remove the empty items of a template.
local function without_empty_items(list)
  list.content = list.content:filter(function(item) return stringify(item):match('%S') ~= nil or #item > 1 end)
  if #list.content == 0 then return {} end
  return list
end

-- Remove tables of contents.
local function without_contents(list)
  if (links_of(list) or 0) > 1 then return {} end
end

local names_languages = true

local blank = {LineBreak = true, SoftBreak = true, Space = true}

-- Remove a final line break from a paragraph or heading: it would be written as a backslash.
local function without_last_break(inlines)
  while #inlines > 0 and blank[inlines[#inlines].t] do inlines:remove(#inlines) end
  return inlines
end

-- Write each picture into a folder for the reader, which describes the files.
local MAX_PICTURES = 5000
local pictures_folder, picture_bytes, marks_pictures
local picture_numbers, picture_count = {}, 0

local function write_file(name, content)
  local file = io.open(pictures_folder .. '/' .. name, 'wb')
  if file then
    file:write(content)
    file:close()
  end
end

-- Return the mark of a picture, after writing the picture if it is the first time.
local function picture_mark(image)
  if not pictures_folder then return {} end
  local number = picture_numbers[image.src]
  if not number then
    if picture_count >= MAX_PICTURES then return {} end
    number, picture_count = picture_count, picture_count + 1
    picture_numbers[image.src] = number
    local _, content = pandoc.mediabag.lookup(image.src)
    if content then
      write_file(tostring(number), content:sub(1, picture_bytes))
    else
      write_file(number .. '.link', image.src)
    end
    write_file(number .. '.alt', stringify(image.caption))
  end
  if not marks_pictures then return {} end
  return {pandoc.Str(utf8.char(0x10F1C3) .. number .. utf8.char(0x10F1C2))}
end

local looks = {
  traverse = 'topdown',
  Inlines = raised,
  Code = function(code)
    if not code.classes:includes('interpreted-text') then return pandoc.Code(code.text) end
    local role = code.attributes.role or ''
    if role:match('ref$') or role == 'doc' or role == 'term' or role == 'guilabel' or role == 'menuselection' then
      return spaced_words(role_words(code.text))
    end
    if (role == 'pep' or role == 'rfc') and code.text:match('^%d+$') then
      return spaced_words(role:upper() .. ' ' .. code.text)
    end
    return pandoc.Code(role_words(code.text))
  end,
  Image = function(image)
    local words = stringify(image.caption)
    local result = pandoc.Inlines({})
    if not words:match('^%S+%.%a%w%w%w?$') then result:extend(image.caption) end
    result:extend(picture_mark(image))
    return result
  end,
  Link = function(link) return link.content end,
  Span = function(span)
    if span.classes:includes('comment-start') or span.classes:includes('comment-end') then return {} end
    return span.content
  end,
  Emph = function(element) return element.content end,
  Underline = function(element) return element.content end,
  SmallCaps = function(element) return element.content end,
  Superscript = function(element) return element.content end,
  Subscript = function(element) return element.content end,
  Quoted = function(quoted)
    local mark = quoted.quotetype == 'DoubleQuote' and {'“', '”'} or {'‘', '’'}
    return pandoc.List({pandoc.Str(mark[1])}) .. quoted.content .. pandoc.List({pandoc.Str(mark[2])})
  end,
  Cite = function(cite) return cite.content end,
  Math = function(math)
    if math.mathtype == 'DisplayMath' then return pandoc.Str('$$' .. math.text .. '$$') end
    return pandoc.Str('$' .. math.text .. '$')
  end,
  RawInline = function() return {} end,
  RawBlock = function() return {} end,
  HorizontalRule = function() return {} end,
  LineBlock = function(lines)
    local result = pandoc.List()
    for index, line in ipairs(lines.content) do
      if index > 1 then result:insert(pandoc.LineBreak()) end
      result:extend(line)
    end
    return pandoc.Para(result)
  end,
  DefinitionList = function(list)
    local result = pandoc.List()
    for _, entry in ipairs(list.content) do
      result:insert(pandoc.Para({pandoc.Strong(without_strong(entry[1]))}))
      for _, blocks in ipairs(entry[2]) do result:extend(blocks) end
    end
    return pandoc.Div(result)
  end,
  Figure = function(figure)
    local result = pandoc.List(figure.content)
    local caption = figure.caption.long
    local shown = stringify(figure.content)
    if #caption > 0 and stringify(caption) ~= shown then result:extend(caption) end
    return pandoc.Div(result)
  end,
  CodeBlock = function(code)
    local language = names_languages and code.classes[1]
    return pandoc.CodeBlock(code.text, pandoc.Attr('', language and language:match('^[%w+#-]+$') and {language} or {}))
  end,
  Header = function(header)
    local words = header.content:walk({LineBreak = function() return pandoc.Space() end})
    return pandoc.Header(math.min(header.level, 6), without_last_break(words))
  end,
}

-- Keep Strong for a bold title, which introduces what follows. Inside a paragraph it is only a style.
local function plain_strong(inlines)
  if #inlines == 1 and inlines[1].t == 'Strong' then
    return pandoc.Inlines({pandoc.Strong(without_strong(inlines[1].content))})
  end
  return without_strong(inlines)
end

local dropped = {toctree = true, contents = true, index = true, highlight = true, TOC = true, toc = true}

-- Return whether a Div of a dropped class only points elsewhere. In books, the same classes are around code and chapters.
local function is_navigation(div)
  local blocks, links, has_code = 0, 0, false
  local function count() blocks = blocks + 1 end
  div:walk({
    Header = count, Para = count, Plain = count,
    CodeBlock = function() has_code = true end,
    Link = function() links = links + 1 end,
  })
  return not has_code and (blocks <= 2 or 2 * links >= blocks)
end

local function without_navigation(div)
  for _, class in ipairs(div.classes) do
    if dropped[class] and is_navigation(div) then return {} end
  end
end

local versions = {
  versionadded = 'New in version', versionchanged = 'Changed in version', deprecated = 'Deprecated since version'
}

local boxes = {
  Div = function(div)
    local said = versions[div.classes[1]]
    if said and div.content[1] and div.content[1].t == 'Para' then
      div.content[1].content = spaced_words(said) .. {pandoc.Space()} .. div.content[1].content
    end
    if div.classes[1] == 'output' then  -- of a notebook; the source of widgets and drawings is not visible
      div.content = div.content:filter(function(block) return block.t ~= 'CodeBlock' or block.classes[1] ~= 'json' end)
    end
    if div.classes[1] == 'only' then div.content:remove(1) end  -- the output format that it is for
    if div.classes:includes('title') and #div.content == 1 and div.content[1].content then
      return pandoc.Para({pandoc.Strong(without_strong(div.content[1].content))})
    end
    return div.content
  end,
  Para = function(para)
    para.content = without_last_break(plain_strong(para.content))
    if stringify(para.content):match('^%s*$') then return {} end
    return para
  end,
  Plain = function(plain)
    plain.content = without_last_break(plain_strong(plain.content))
    return plain
  end,
}

local function rows_of(table)
  local rows = pandoc.List()
  rows:extend(table.head.rows)
  for _, body in ipairs(table.bodies) do
    rows:extend(body.head)
    rows:extend(body.body)
  end
  rows:extend(table.foot.rows)
  return rows
end

-- Return the paragraphs of blocks, including those in lists and tables.
local function paragraphs_of(blocks, found)
  for _, block in ipairs(blocks) do
    if block.t == 'BulletList' or block.t == 'OrderedList' then
      for _, item in ipairs(block.content) do paragraphs_of(item, found) end
    elseif block.t == 'Table' then
      for _, row in ipairs(rows_of(block)) do
        for _, cell in ipairs(row.cells) do paragraphs_of(cell.contents, found) end
      end
    else
      found:insert(block)
    end
  end
  return found
end

-- Write a cell as one line.
local function cell_words(cell)
  local inlines = pandoc.utils.blocks_to_inlines(paragraphs_of(cell.contents, pandoc.List()), {pandoc.Space()})
  return without_strong(inlines):walk({
    LineBreak = function() return pandoc.Space() end,
    SoftBreak = function() return pandoc.Space() end,
    Note = function(note)
      local words = pandoc.List({pandoc.Space(), pandoc.Str('(')})
      words:extend(pandoc.utils.blocks_to_inlines(note.content, {pandoc.Space()}))
      words:insert(pandoc.Str(')'))
      return words
    end,
  })
end

local MAX_SPAN = 400  -- columns of a table, and rows that a merged cell spans

local function grid(rows)
  local filled, width = {}, 0
  for number, row in ipairs(rows) do
    filled[number] = filled[number] or {}
    local column = 1
    for _, cell in ipairs(row.cells) do
      while filled[number][column] do column = column + 1 end
      local words = cell_words(cell)
      for down = 0, math.min(cell.row_span, MAX_SPAN, #rows - number + 1) - 1 do
        filled[number + down] = filled[number + down] or {}
        for right = 0, math.min(cell.col_span, MAX_SPAN) - 1 do
          -- A horizontally merged cell is written once, a vertically merged one in each row.
          filled[number + down][column + right] = (right == 0) and words or pandoc.Inlines({})
        end
      end
      column = column + math.min(cell.col_span, MAX_SPAN)
    end
    for place in pairs(filled[number]) do width = math.max(width, place) end
  end
  return filled, width
end

local function simple_table(table)
  local rows = rows_of(table)
  local heads = #table.head.rows
  if heads == #rows and heads > 1 then heads = 1 end  -- a cell of the first row that is merged down to the last one
  local filled, width = grid(rows)
  local caption = pandoc.utils.blocks_to_inlines(table.caption.long)
  local result = pandoc.List()
  if #caption > 0 then result:insert(pandoc.Para(caption)) end
  if width == 0 then return result end
  if width == 1 then  -- a box around text
    for _, row in ipairs(rows) do
      for _, cell in ipairs(row.cells) do result:extend(cell.contents) end
    end
    return result
  end
  local lines = pandoc.List()
  for number = 1, #rows do
    local line, empty = {}, true
    for column = 1, width do
      line[column] = {pandoc.Plain(filled[number][column] or {})}
      if #(filled[number][column] or {}) > 0 then empty = false end
    end
    if not empty then lines:insert(line) elseif number <= heads then heads = heads - 1 end
  end
  if #lines == 0 then return result end
  local header = table_header(lines, heads, width)
  local aligns, widths = {}, {}
  for column = 1, width do aligns[column], widths[column] = pandoc.AlignDefault, 0 end
  result:insert(pandoc.utils.from_simple_table(pandoc.SimpleTable({}, aligns, widths, header, lines)))
  return result
end

-- Join the rows of a header: "2023" above "first half" becomes "2023 first half".
function table_header(lines, heads, width)
  local header = {}
  for column = 1, width do header[column] = pandoc.Inlines({}) end
  for number = 1, math.max(1, heads) do
    local line = lines:remove(1)
    if not line then break end
    local spanning = pandoc.Inlines({})
    for column = 1, width do
      local words = line[column][1].content
      if number < heads and #words == 0 then words = spanning else spanning = words end
      if #words > 0 and stringify(words) ~= stringify(header[column]) then
        if #header[column] > 0 then header[column]:insert(pandoc.Space()) end
        header[column]:extend(words)
      end
    end
  end
  local result = {}
  for column = 1, width do result[column] = {pandoc.Plain(header[column])} end
  return result
end

-- Turn short bold lines into headings. Many people write headings like this.
local function bold_headings(doc)
  local has_headings = false
  doc:walk({Header = function() has_headings = true end})
  if has_headings then return doc end
  for index, block in ipairs(doc.blocks) do
    local strong = block.t == 'Para' and #block.content == 1 and block.content[1].t == 'Strong' and block.content[1]
    if strong and index < #doc.blocks then
      local words = stringify(strong)
      if #words <= 100 and not words:match('[.,;:]$') then doc.blocks[index] = pandoc.Header(2, strong.content) end
    end
  end
  return doc
end

local function title_and_date(meta)
  local kept = {}
  for _, name in ipairs({'title', 'date'}) do
    local value = meta[name]
    if pandoc.utils.type(value) == 'List' then value = value[#value] end  -- in reverse order
    if value then kept[name] = stringify(value) end
  end
  if meta.section and kept.title then kept.title = kept.title .. '(' .. stringify(meta.section) .. ')' end
  return kept
end

-- Restore the first section, which pandoc turns into a subtitle if it is the only one.
local function with_subtitle(doc)
  local subtitle = doc.meta.subtitle
  if not subtitle or stringify(subtitle) == '' then return doc end
  doc.blocks = doc.blocks:walk({Header = function(header) return pandoc.Header(header.level + 1, header.content) end})
  doc.blocks:insert(1, pandoc.Header(1, spaced_words(stringify(subtitle))))
  return doc
end

-- Return a value of the metadata as blocks. The entries of a list are joined by commas.
local function value_blocks(value)
  local kind = pandoc.utils.type(value)
  if kind == 'Blocks' then return value end
  if kind ~= 'List' then return pandoc.Blocks({pandoc.Para(kind == 'Inlines' and value or spaced_words(stringify(value)))}) end
  local words = pandoc.Inlines({})
  for _, entry in ipairs(value) do
    if #words > 0 then words:extend({pandoc.Str(','), pandoc.Space()}) end
    words:extend(pandoc.utils.blocks_to_inlines(value_blocks(entry), {pandoc.Space()}))
  end
  return pandoc.Blocks({pandoc.Para(words)})
end

local shown_fields = pandoc.List({'author', 'institute', 'date', 'version', 'releaseinfo', 'copyright', 'remark', 'abstract'})

-- Write what a document shows below its title, and pandoc takes for metadata, at the beginning of the text.
local function with_shown_fields(doc, are_labelled)
  local names, blocks = pandoc.List(), pandoc.Blocks({})
  if are_labelled then
    for name in pairs(doc.meta) do
      local is_ours = name:match('^pictures%-') or name == 'shown-fields' or name == 'title' or name == 'subtitle'
      if not is_ours and not shown_fields:includes(name) then names:insert(name) end
    end
    table.sort(names)
  end
  names = shown_fields .. names
  for _, name in ipairs(names) do
    local value = doc.meta[name] and value_blocks(doc.meta[name]) or {}
    local label = name:sub(1, 1):upper() .. name:sub(2)
    if stringify(value) == '' then
    elseif are_labelled and #value == 1 and value[1].content then
      blocks:insert(pandoc.Para(spaced_words(label .. ':') .. {pandoc.Space()} .. value[1].content))
    else
      if name == 'abstract' then blocks:insert(pandoc.Para({pandoc.Strong({pandoc.Str(label)})})) end
      blocks:extend(value)
    end
  end
  doc.blocks = blocks .. doc.blocks
  return doc
end

function Pandoc(doc)
  local meta, bold = title_and_date(doc.meta), doc.meta['bold-headings']
  names_languages = not doc.meta['no-languages']
  if doc.meta['pictures-folder'] then
    pictures_folder = stringify(doc.meta['pictures-folder'])
    picture_bytes = tonumber(stringify(doc.meta['pictures-bytes']))
    marks_pictures = doc.meta['pictures-marked']
  end
  doc = with_subtitle(doc)
  if doc.meta['shown-fields'] then doc = with_shown_fields(doc, stringify(doc.meta['shown-fields']) == 'labelled') end
  doc.blocks = without_heading_lists(doc.blocks)
  doc = doc:walk({traverse = 'topdown', BulletList = without_contents, OrderedList = without_contents})
  doc = doc:walk({Blocks = with_code, BulletList = without_empty_items})
  doc = doc:walk({Div = without_navigation})  -- before links become words
  doc = doc:walk({Inlines = without_note_marks, Note = without_note_number}):walk(looks):walk(boxes)
  if bold then doc = bold_headings(doc) end
  doc = doc:walk({Table = simple_table})
  doc = doc:walk({Inlines = words_of})
  doc.meta = pandoc.Meta(meta)
  return doc
end
