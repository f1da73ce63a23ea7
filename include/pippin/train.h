// What a training program shows and leaves behind: progress, metrics, curves.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pippin/tensor.h"

namespace pippin::train {

/// One line that is redrawn up to ten times a second on a terminal, and about ten plain lines an
/// epoch elsewhere: epoch, share done, loss, images/s, most memory that tensors took, time left. Of
/// several processes the main one draws, and speaks for all.
class ProgressBar {
  public:
    struct Options {
        int epochs = 1;
        std::int64_t images_per_epoch = 0;
        std::FILE* out = stdout;
        std::optional<bool> terminal = std::nullopt;  ///< unset: whether `out` is one
        int lines_per_epoch = 10;                     ///< when it is none
        std::string unit = "images";                  ///< what is counted
        bool quiet = false;                           ///< draw nothing, as all processes but one
    };
    explicit ProgressBar(Options o);

    void begin_epoch();
    /// `images` more are done. `loss` is asked only when something is drawn: reading a loss waits
    /// for its step, which an update that draws nothing must not do.
    void update(std::int64_t images, const std::function<double()>& loss);
    void update(std::int64_t images, const Tensor& loss);
    /// Ends the epoch's line; `note` ("test accuracy 0.8812") is printed behind it, `loss` instead
    /// of the last batch's. Time until the next begin_epoch() counts in no rate.
    void end_epoch(const std::string& note = "", std::optional<double> loss = std::nullopt);

    int epoch() const { return epoch_; }  ///< from 1
    /// Over all epochs, without what happened between them.
    double images_per_s() const;

  private:
    using Clock = std::chrono::steady_clock;
    void draw(bool last, const std::string& note);
    double seconds() const;  ///< spent in epochs so far

    Options o_;
    bool terminal_, running_ = false;
    int epoch_ = 0;
    std::int64_t done_ = 0, done_before_ = 0;  ///< images of this epoch, and of those before it
    std::int64_t lines_drawn_ = 0;
    double loss_ = 0, seconds_before_ = 0;
    Clock::time_point started_{}, drawn_{};
    std::function<double()> read_loss_;
};

/// The mean of a scalar over batches, added up on the device: add() reads nothing and, inside a
/// training step, becomes a part of the step's plan.
class Mean {
  public:
    /// `value` is the mean of `count` items.
    void add(const Tensor& value, std::int64_t count = 1);
    void add_total(const Tensor& total,
                   std::int64_t count);  ///< `total` is the sum of `count` items
    double value() const;                ///< waits; NaN before the first add()
    double total() const;                ///< of all items, to go on from with add_total(); waits
    std::int64_t count() const { return count_; }
    void reset();

  private:
    Tensor total_;
    std::int64_t count_ = 0;
};

/// The share of rows whose largest logit is at the target, over batches; works as Mean does.
class Accuracy {
  public:
    void add(const Tensor& logits, const Tensor& target);
    double value() const { return mean_.value(); }
    std::int64_t count() const { return mean_.count(); }
    void reset() { mean_.reset(); }

  private:
    Mean mean_;
};

/// Of one batch.
double accuracy(const Tensor& logits, const Tensor& target);

/// A table of numbers that grows by a row, on disk as soon as it is added: what a killed run leaves
/// can be read.
class MetricsCsv {
  public:
    /// Makes the folder if it is missing, and a new file; with `append`, goes on with one whose
    /// header is the same. FileError otherwise.
    MetricsCsv(std::filesystem::path path, std::vector<std::string> columns, bool append = false);
    ~MetricsCsv();
    MetricsCsv(const MetricsCsv&) = delete;
    MetricsCsv& operator=(const MetricsCsv&) = delete;
    /// One value a column; NaN leaves a cell empty.
    void add(const std::vector<double>& row);

  private:
    std::filesystem::path path_;
    std::size_t columns_;
    std::FILE* file_;
};

struct Series {
    std::string name;
    std::vector<std::pair<double, double>>
        points;          ///< x rising; values that are not finite leave a gap
    bool marks = false;  ///< a dot at each point
    bool dashed = false;
    int colour = -1;  ///< series with one number share a colour; negative: the next one
};
struct Panel {
    std::string title, x_label, y_label;
    std::vector<Series> series;
};
/// Line charts, up to three in a row, with axes, grid and legends, as one SVG file.
void write_curves_svg(const std::filesystem::path& path, const std::string& title,
                      const std::vector<Panel>& panels);

}  // namespace pippin::train
