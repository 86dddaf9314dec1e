"""A PDF with one section on two pages."""

from __future__ import annotations

from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

FIRST = "Loosen the wheel nuts a quarter turn before the car is lifted from the ground."
SECOND = "Tighten the wheel nuts crosswise to one hundred and twenty newton metres."


def write_manual(path: Path) -> None:
    """Write a PDF with a section on two pages."""
    canvas = Canvas(str(path), pagesize=(400, 500))
    canvas.setTitle("Changing a wheel")
    for heading, text, below in (
        ("Changing a wheel", FIRST, "A torque wrench lies in the boot of the car."),
        ("", SECOND, "The spare wheel hangs under the floor."),
    ):
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(40, 440, heading)
        canvas.setFont("Helvetica", 9)
        canvas.drawString(20, 300, text)
        canvas.drawString(20, 100, below)
        canvas.showPage()
    canvas.save()
