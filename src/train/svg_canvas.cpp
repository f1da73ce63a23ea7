// Shapes as SVG.
#include <fmt/format.h>

#include "io/atomic_file.h"
#include "train/chart.h"

namespace pippin::train {
namespace {

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t')
            out += c;  // XML has no way to write the other control characters
    }
    return out;
}

}  // namespace

SvgCanvas::SvgCanvas(double width, double height, const std::string& title) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"DejaVu Sans, Helvetica, Arial, "
        "sans-serif\">\n<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n",
        width, height, escaped(title));
}

void SvgCanvas::rect(double x, double y, double w, double h, const std::string& fill) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
        w, h, fill);
}

void SvgCanvas::box(double x, double y, double w, double h) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" "
        "fill=\"#ffffff\" fill-opacity=\"0.9\" stroke=\"#cccccc\"/>\n",
        x, y, w, h);
}

void SvgCanvas::line(Point a, Point b, const std::string& colour, double width) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{:g}\"/>\n",
        a.x, a.y, b.x, b.y, colour, width);
}

void SvgCanvas::curve(const std::vector<Point>& points, const std::string& colour, bool dashed) {
    std::string list;
    for (const Point& p : points)
        list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", p.x, p.y);
    out_ += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
        "stroke-linejoin=\"round\"{}/>\n",
        list, colour, dashed ? " stroke-dasharray=\"6 4\"" : "");
}

void SvgCanvas::dot(Point at, double radius, const std::string& colour) {
    out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"/>\n", at.x,
                        at.y, radius, colour);
}

void SvgCanvas::text(double x, double y, const std::string& what, const TextStyle& s) {
    const char* anchor = s.anchor == TextStyle::Anchor::Start    ? "start"
                         : s.anchor == TextStyle::Anchor::Middle ? "middle"
                                                                 : "end";
    std::string more;
    if (s.bold) more += " font-weight=\"600\"";
    if (s.upward) more += fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y);
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{:g}\" fill=\"{}\"{}>{}"
        "</text>\n",
        x, y, anchor, s.size, s.colour, more, escaped(what));
}

void write_text(const std::filesystem::path& path, const std::string& text) {
    io::AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

}  // namespace pippin::train
