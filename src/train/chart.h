// What charts are drawn on, and the drawing of curves. A chart is drawn once, whatever the file is
// to be: SVG here, PNG in the `pippin` command, which has a library for that.
#pragma once

#include <string>
#include <vector>

#include "pippin/train.h"

namespace pippin::train {

struct Point {
    double x = 0, y = 0;
};

struct TextStyle {
    enum class Anchor { Start, Middle, End } anchor = Anchor::Start;
    double size = 12;
    bool bold = false;
    bool upward = false;  ///< reads from below to above
    std::string colour = "#222222";
};

/// Takes shapes in pixels from the upper left corner. Colours are "#rrggbb".
class Canvas {
  public:
    virtual ~Canvas() = default;
    virtual void rect(double x, double y, double w, double h, const std::string& fill) = 0;
    /// A nearly opaque white box with a thin border, which labels lie on.
    virtual void box(double x, double y, double w, double h) = 0;
    virtual void line(Point a, Point b, const std::string& colour, double width = 1) = 0;
    virtual void curve(const std::vector<Point>& points, const std::string& colour,
                       bool dashed) = 0;
    virtual void dot(Point at, double radius, const std::string& colour) = 0;
    virtual void text(double x, double y, const std::string& what, const TextStyle& style = {}) = 0;
};

class SvgCanvas : public Canvas {
  public:
    SvgCanvas(double width, double height, const std::string& title);
    void rect(double x, double y, double w, double h, const std::string& fill) override;
    void box(double x, double y, double w, double h) override;
    void line(Point a, Point b, const std::string& colour, double width) override;
    void curve(const std::vector<Point>& points, const std::string& colour, bool dashed) override;
    void dot(Point at, double radius, const std::string& colour) override;
    void text(double x, double y, const std::string& what, const TextStyle& style) override;
    std::string str() const { return out_ + "</svg>\n"; }

  private:
    std::string out_;
};

struct Extent {
    double width = 0, height = 0;
};
/// What draw_curves() needs: panels in rows of three at most.
Extent curves_extent(std::size_t panels);
void draw_curves(Canvas& canvas, const std::string& title, const std::vector<Panel>& panels);

/// Replaces the file in one step; FileError when that fails.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace pippin::train
