// Line charts as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/atomic_file.h"
#include "pippin/train.h"

namespace pippin::train {
namespace {

// The colours of Okabe and Ito, which stay apart for colour-blind eyes.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9"};
constexpr double kPanelWidth = 480, kPanelHeight = 360, kHead = 56;
constexpr double kLeft = 64, kRight = 20, kTop = 34, kBottom = 50;  // around a panel's plot

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

// A range of an axis that starts and ends at round numbers, with a tick every `step`.
struct Axis {
    double low = 0, high = 1, step = 0.2;

    static Axis around(double low, double high) {
        if (!(low <= high)) return {};  // no data
        if (low == high) {
            const double room = low == 0 ? 1 : std::abs(low) * 0.1;
            low -= room, high += room;
        }
        const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
        double step = 10 * power;
        for (const double nice : {1.0, 2.0, 2.5, 5.0})
            if (nice * power >= rough * 0.999) {
                step = nice * power;
                break;
            }
        return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
    }
    double part(double v) const { return (v - low) / (high - low); }
    int ticks() const { return static_cast<int>(std::lround((high - low) / step)) + 1; }
    std::string label(int i) const {
        const double v = low + step * i;
        return fmt::format("{:.6g}", std::abs(v) < step * 1e-6 ? 0.0 : v);
    }
};

bool finite(const std::pair<double, double>& p) {
    return std::isfinite(p.first) && std::isfinite(p.second);
}

class PanelWriter {
  public:
    PanelWriter(const Panel& panel, double x, double y)
        : panel_(panel),
          left_(x + kLeft),
          top_(y + kTop),
          width_(kPanelWidth - kLeft - kRight),
          height_(kPanelHeight - kTop - kBottom) {
        const double inf = std::numeric_limits<double>::infinity();
        double x0 = inf, x1 = -inf, y0 = inf, y1 = -inf;
        for (const Series& s : panel.series)
            for (const auto& p : s.points)
                if (finite(p)) {
                    x0 = std::min(x0, p.first), x1 = std::max(x1, p.first);
                    y0 = std::min(y0, p.second), y1 = std::max(y1, p.second);
                }
        x_ = Axis::around(x0, x1);
        y_ = Axis::around(y0, y1);
    }

    std::string str() {
        text(left_ + width_ / 2, top_ - 14, "middle", panel_.title,
             "font-size=\"15\" font-weight=\"600\"");
        axes();
        for (std::size_t i = 0; i < panel_.series.size(); ++i)
            line(panel_.series[i], colour(i));
        legend();
        return out_;
    }

  private:
    static const char* colour(std::size_t i) { return kColours[i % std::size(kColours)]; }
    double px(double v) const { return left_ + x_.part(v) * width_; }
    double py(double v) const { return top_ + (1 - y_.part(v)) * height_; }

    void text(double x, double y, const char* anchor, const std::string& what,
              const std::string& more = "") {
        out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x,
                            y, anchor, more, escaped(what));
    }

    void stroke(double xa, double ya, double xb, double yb, const char* colour) {
        out_ += fmt::format(
            "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
            "stroke-width=\"1\"/>\n",
            xa, ya, xb, yb, colour);
    }

    void axes() {
        for (int i = 0; i < x_.ticks(); ++i) {
            const double at = px(x_.low + x_.step * i);
            stroke(at, top_, at, top_ + height_, "#e6e6e6");
            text(at, top_ + height_ + 18, "middle", x_.label(i));
        }
        for (int i = 0; i < y_.ticks(); ++i) {
            const double at = py(y_.low + y_.step * i);
            stroke(left_, at, left_ + width_, at, "#e6e6e6");
            text(left_ - 8, at + 4, "end", y_.label(i));
        }
        stroke(left_, top_ + height_, left_ + width_, top_ + height_, "#444444");
        stroke(left_, top_, left_, top_ + height_, "#444444");
        text(left_ + width_ / 2, top_ + height_ + 40, "middle", panel_.x_label);
        const double x = left_ - 48, y = top_ + height_ / 2;
        text(x, y, "middle", panel_.y_label,
             fmt::format("transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y));
    }

    void line(const Series& s, const char* c) {
        std::string points;
        int run = 0;
        const auto finish = [&] {
            if (run > 1)
                out_ += fmt::format(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
                    "stroke-linejoin=\"round\"/>\n",
                    points, c);
            points.clear();
            run = 0;
        };
        for (const auto& p : s.points) {
            if (!finite(p)) {
                finish();
                continue;
            }
            points += fmt::format("{}{:.1f},{:.1f}", run ? " " : "", px(p.first), py(p.second));
            ++run;
            if (s.marks || s.points.size() == 1)
                out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n",
                                    px(p.first), py(p.second), c);
        }
        finish();
    }

    // The share of the data that a box in the plot would hide.
    double covered(double x, double y, double w, double h) const {
        std::int64_t hidden = 0, all = 0;
        for (const Series& s : panel_.series)
            for (const auto& p : s.points)
                if (finite(p)) {
                    ++all;
                    const double at_x = px(p.first), at_y = py(p.second);
                    hidden +=
                        at_x >= x - 6 && at_x <= x + w + 6 && at_y >= y - 6 && at_y <= y + h + 6;
                }
        return all ? static_cast<double>(hidden) / static_cast<double>(all) : 0;
    }

    void legend() {
        std::size_t longest = 0;
        for (const Series& s : panel_.series)
            longest = std::max(longest, s.name.size());
        if (longest == 0) return;
        const double w = 44 + 7.2 * static_cast<double>(longest), gap = 8;
        const double h = 10 + 18 * static_cast<double>(panel_.series.size());
        const double right = left_ + width_ - w - gap, low = top_ + height_ - h - gap;
        // In the corner where it hides least.
        double best_x = right, best_y = top_ + gap, best = covered(right, top_ + gap, w, h);
        const std::pair<double, double> corners[] = {
            {right, low}, {left_ + gap, top_ + gap}, {left_ + gap, low}};
        for (const auto& [x, y] : corners)
            if (const double c = covered(x, y, w, h); c < best) best = c, best_x = x, best_y = y;
        out_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" "
            "fill=\"#ffffff\" fill-opacity=\"0.9\" stroke=\"#cccccc\"/>\n",
            best_x, best_y, w, h);
        for (std::size_t i = 0; i < panel_.series.size(); ++i) {
            const double y = best_y + 14 + 18 * static_cast<double>(i);
            out_ += fmt::format(
                "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                "stroke-width=\"3\"/>\n",
                best_x + 8, y, best_x + 30, y, colour(i));
            text(best_x + 36, y + 4, "start", panel_.series[i].name);
        }
    }

    const Panel& panel_;
    double left_, top_, width_, height_;
    Axis x_, y_;
    std::string out_;
};

}  // namespace

void write_curves_svg(const std::filesystem::path& path, const std::string& title,
                      const std::vector<Panel>& panels) {
    const double width = kPanelWidth * static_cast<double>(std::max<std::size_t>(1, panels.size()));
    const double height = kHead + kPanelHeight;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\" "
        "fill=\"#222222\">\n"
        "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{3:.1f}\" y=\"34\" text-anchor=\"middle\" font-size=\"19\" "
        "font-weight=\"600\">{2}</text>\n",
        width, height, escaped(title), width / 2);
    for (std::size_t i = 0; i < panels.size(); ++i)
        svg += PanelWriter(panels[i], kPanelWidth * static_cast<double>(i), kHead).str();
    svg += "</svg>\n";
    io::AtomicFile file(path);
    file.write(svg.data(), svg.size());
    file.commit();
}

}  // namespace pippin::train
