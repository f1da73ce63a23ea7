// Line charts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/chart.h"

namespace pippin::train {
namespace {

// The colours of Okabe and Ito, which stay apart for colour-blind eyes.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9"};
constexpr double kPanelWidth = 480, kPanelHeight = 360, kHead = 56;
constexpr double kLeft = 72, kRight = 20, kTop = 34, kBottom = 50;  // around a panel's plot
constexpr std::size_t kPerRow = 3;

std::size_t panels_in_row(std::size_t panels) {
    return panels == 4 ? 2 : std::clamp<std::size_t>(panels, 1, kPerRow);
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

// Characters, not bytes.
std::size_t length(const std::string& utf8) {
    return static_cast<std::size_t>(
        std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Of many points on one pixel column: the first, the lowest, the highest and the last, which give
// the same picture.
std::vector<Point> thinned(const std::vector<Point>& points) {
    if (points.size() < 4 * static_cast<std::size_t>(kPanelWidth)) return points;
    std::vector<Point> out;
    for (std::size_t i = 0; i < points.size();) {
        std::size_t end = i, low = i, high = i;
        for (; end < points.size() && std::floor(points[end].x) == std::floor(points[i].x); ++end) {
            if (points[end].y < points[low].y) low = end;
            if (points[end].y > points[high].y) high = end;
        }
        std::vector<std::size_t> kept{i, low, high, end - 1};
        std::sort(kept.begin(), kept.end());
        kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
        for (const std::size_t k : kept)
            out.push_back(points[k]);
        i = end;
    }
    return out;
}

class PanelPainter {
  public:
    using Anchor = TextStyle::Anchor;

    PanelPainter(Canvas& canvas, const Panel& panel, double x, double y)
        : canvas_(canvas),
          panel_(panel),
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

    void paint() {
        canvas_.text(left_ + width_ / 2, top_ - 14, panel_.title,
                     {.anchor = Anchor::Middle, .size = 15, .bold = true});
        axes();
        for (std::size_t i = 0; i < panel_.series.size(); ++i)
            curve(panel_.series[i], colour(i));
        legend();
    }

  private:
    const char* colour(std::size_t i) const {
        const int chosen = panel_.series[i].colour;
        return kColours[(chosen < 0 ? i : static_cast<std::size_t>(chosen)) % std::size(kColours)];
    }
    Point at(double x, double y) const {
        return {left_ + x_.part(x) * width_, top_ + (1 - y_.part(y)) * height_};
    }

    void axes() {
        const double right = left_ + width_, low = top_ + height_;
        for (int i = 0; i < x_.ticks(); ++i) {
            const double x = at(x_.low + x_.step * i, 0).x;
            canvas_.line({x, top_}, {x, low}, "#e6e6e6");
            canvas_.text(x, low + 18, x_.label(i), {.anchor = Anchor::Middle});
        }
        for (int i = 0; i < y_.ticks(); ++i) {
            const double y = at(0, y_.low + y_.step * i).y;
            canvas_.line({left_, y}, {right, y}, "#e6e6e6");
            canvas_.text(left_ - 8, y + 4, y_.label(i), {.anchor = Anchor::End});
        }
        canvas_.line({left_, low}, {right, low}, "#444444");
        canvas_.line({left_, top_}, {left_, low}, "#444444");
        canvas_.text(left_ + width_ / 2, low + 40, panel_.x_label, {.anchor = Anchor::Middle});
        canvas_.text(left_ - 54, top_ + height_ / 2, panel_.y_label,
                     {.anchor = Anchor::Middle, .upward = true});
    }

    void curve(const Series& s, const char* c) {
        std::vector<Point> run;
        const auto finish = [&] {
            if (run.size() > 1) canvas_.curve(thinned(run), c, s.dashed);
            run.clear();
        };
        for (const auto& p : s.points) {
            if (!finite(p)) {
                finish();
                continue;
            }
            run.push_back(at(p.first, p.second));
            if (s.marks || s.points.size() == 1) canvas_.dot(run.back(), 4, c);
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
                    const Point q = at(p.first, p.second);
                    hidden += q.x >= x - 6 && q.x <= x + w + 6 && q.y >= y - 6 && q.y <= y + h + 6;
                }
        return all ? static_cast<double>(hidden) / static_cast<double>(all) : 0;
    }

    void legend() {
        std::size_t longest = 0;
        for (const Series& s : panel_.series)
            longest = std::max(longest, length(s.name));
        if (longest == 0) return;
        const double w = 44 + 7.2 * static_cast<double>(longest), gap = 8;
        const double h = 10 + 18 * static_cast<double>(panel_.series.size());
        const double right = left_ + width_ - w - gap, low = top_ + height_ - h - gap;
        // In the corner where it hides least.
        Point best{right, top_ + gap};
        double least = covered(best.x, best.y, w, h);
        for (const Point p : {Point{right, low}, {left_ + gap, top_ + gap}, {left_ + gap, low}})
            if (const double c = covered(p.x, p.y, w, h); c < least) least = c, best = p;
        canvas_.box(best.x, best.y, w, h);
        for (std::size_t i = 0; i < panel_.series.size(); ++i) {
            const double y = best.y + 14 + 18 * static_cast<double>(i);
            const Series& s = panel_.series[i];
            if (s.dashed)
                canvas_.curve({{best.x + 8, y}, {best.x + 30, y}}, colour(i), true);
            else
                canvas_.line({best.x + 8, y}, {best.x + 30, y}, colour(i), 3);
            canvas_.text(best.x + 36, y + 4, s.name);
        }
    }

    Canvas& canvas_;
    const Panel& panel_;
    double left_, top_, width_, height_;
    Axis x_, y_;
};

}  // namespace

Extent curves_extent(std::size_t panels) {
    const std::size_t wide = panels_in_row(panels), rows = std::max<std::size_t>(1, panels);
    return {kPanelWidth * static_cast<double>(wide),
            kHead + kPanelHeight * static_cast<double>((rows + wide - 1) / wide)};
}

void draw_curves(Canvas& canvas, const std::string& title, const std::vector<Panel>& panels) {
    canvas.text(curves_extent(panels.size()).width / 2, 34, title,
                {.anchor = TextStyle::Anchor::Middle, .size = 19, .bold = true});
    const std::size_t wide = panels_in_row(panels.size());
    for (std::size_t i = 0; i < panels.size(); ++i)
        PanelPainter(canvas, panels[i], kPanelWidth * static_cast<double>(i % wide),
                     kHead + kPanelHeight * static_cast<double>(i / wide))
            .paint();
}

void write_curves_svg(const std::filesystem::path& path, const std::string& title,
                      const std::vector<Panel>& panels) {
    const Extent extent = curves_extent(panels.size());
    SvgCanvas canvas(extent.width, extent.height, title);
    draw_curves(canvas, title, panels);
    write_text(path, canvas.str());
}

}  // namespace pippin::train
