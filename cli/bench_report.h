// What pippin bench has measured, as lines of a table, JSON, Markdown and bars.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_case.h"
#include "train/chart.h"

namespace pippin::cli {

/// All measurements of one network in one mode, in the order of rounds.
struct BenchRow {
    BenchCase c;
    std::int64_t usual_batch = 0;    ///< of the published measurements; c.batch may be smaller
    std::int64_t multiply_adds = 0;  ///< of one sample's forward pass
    std::vector<double> rates, peer_rates;
    double first_step_s = 0;
    std::int64_t peak_bytes = 0, launches = 0, peer_peak_bytes = 0;

    double rate() const;  ///< median samples per second
    double peer_rate() const;
    double ratio() const { return rate() / peer_rate(); }
};

std::string table_head(bool compared);
std::string table_row(const BenchRow& r, bool compared);
nlohmann::json row_json(const BenchRow& r, bool compared);
/// One line that says which batches are smaller than the published; empty if none is.
std::string smaller_batches(const std::vector<BenchRow>& rows);

/// The rows as a page of Markdown; `peer`: what they are compared with, or empty; `machine`: the
/// device's description.
std::string markdown(const std::vector<BenchRow>& rows, const std::string& peer,
                     const std::string& machine, const std::string& command,
                     const std::filesystem::path& chart);
/// Bars: the ratio to PyTorch if compared, else samples per second on a logarithmic scale.
std::string bars_title(bool compared);
train::Extent bars_extent(const std::vector<BenchRow>& rows);
void draw_bars(train::Canvas& canvas, const std::vector<BenchRow>& rows, bool compared,
               const std::string& machine);

}  // namespace pippin::cli
