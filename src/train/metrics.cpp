// The metrics table.
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "pippin/train.h"

namespace pippin::train {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
    throw FileError(fmt::format("metrics file {}: {}", path.string(), what));
}

std::string number(double v) {
    if (std::isnan(v)) return "";
    if (v == std::floor(v) && std::abs(v) < 1e15) return fmt::format("{:.0f}", v);
    return fmt::format("{:.6g}", v);
}

}  // namespace

MetricsCsv::MetricsCsv(std::filesystem::path path, std::vector<std::string> columns, bool append)
    : path_(std::move(path)), columns_(columns.size()) {
    std::string header;
    for (const std::string& c : columns) {
        if (c.empty() || c.find_first_of(",\"\r\n") != std::string::npos)
            throw ValueError(fmt::format("MetricsCsv: \"{}\" cannot be a column's name", c));
        header += (header.empty() ? "" : ",") + c;
    }
    std::error_code error;
    if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
    if (error) fail(path_, "cannot make its folder: " + error.message());

    bool old = false;
    if (append) {
        std::ifstream in(path_);
        std::string first;
        old = in && std::getline(in, first);
        if (old && first != header)
            fail(path_, fmt::format("its columns are \"{}\", not \"{}\"; it was left as it is",
                                    first, header));
    }
    file_ = std::fopen(path_.c_str(), old ? "a" : "w");
    if (!file_) fail(path_, std::strerror(errno));
    if (!old) {
        fmt::print(file_, "{}\n", header);
        std::fflush(file_);
    }
}

MetricsCsv::~MetricsCsv() { std::fclose(file_); }

void MetricsCsv::add(const std::vector<double>& row) {
    if (row.size() != columns_)
        throw ValueError(fmt::format("MetricsCsv: {} values for {} columns", row.size(), columns_));
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
        line += (i ? "," : "") + number(row[i]);
    line += "\n";
    if (std::fputs(line.c_str(), file_) < 0 || std::fflush(file_) != 0)
        fail(path_, std::strerror(errno));
}

}  // namespace pippin::train
