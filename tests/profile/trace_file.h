// Reads a Chrome trace the way a viewer does, and complains about what a viewer would not draw.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pippin::test {

struct TraceFile {
    nlohmann::json all;
    std::vector<nlohmann::json> events;  ///< the complete ones
    std::map<std::pair<int, int>, std::string> threads;
    std::map<int, std::string> processes;

    explicit TraceFile(const std::filesystem::path& path) {
        std::ifstream in(path);
        all = nlohmann::json::parse(in, nullptr, false);
        if (all.is_discarded()) {
            ADD_FAILURE() << path << " is not JSON";
            return;
        }
        for (const auto& e : all.at("traceEvents")) {
            const std::string ph = e.at("ph");
            if (ph == "M") {
                const std::string what = e.at("name");
                if (what == "thread_name")
                    threads[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
                if (what == "process_name") processes[e.at("pid")] = e.at("args").at("name");
                continue;
            }
            EXPECT_EQ(ph, "X") << e;
            EXPECT_TRUE(e.at("name").is_string() && !e.at("name").get<std::string>().empty()) << e;
            EXPECT_TRUE(e.at("cat").is_string()) << e;
            EXPECT_TRUE(e.at("ts").is_number() && e.at("dur").is_number()) << e;
            EXPECT_GE(e.at("ts").get<double>(), 0) << e;
            EXPECT_GE(e.at("dur").get<double>(), 0) << e;
            events.push_back(e);
        }
        for (const auto& e : events) {
            EXPECT_TRUE(threads.contains({e.at("pid"), e.at("tid")})) << e;
            EXPECT_TRUE(processes.contains(e.at("pid"))) << e;
        }
        expect_nested();
    }

    std::vector<nlohmann::json> of_category(const std::string& category) const {
        std::vector<nlohmann::json> out;
        for (const auto& e : events)
            if (e.at("cat") == category) out.push_back(e);
        return out;
    }
    std::vector<nlohmann::json> named(const std::string& name) const {
        std::vector<nlohmann::json> out;
        for (const auto& e : events)
            if (e.at("name") == name) out.push_back(e);
        return out;
    }
    std::string thread_of(const nlohmann::json& e) const {
        return threads.at({e.at("pid"), e.at("tid")});
    }
    static double begin(const nlohmann::json& e) { return e.at("ts"); }
    static double end(const nlohmann::json& e) {
        return e.at("ts").get<double>() + e.at("dur").get<double>();
    }
    static bool encloses(const nlohmann::json& a, const nlohmann::json& b) {
        constexpr double tick = 0.002;  // numbers are rounded to a nanosecond
        return a.at("pid") == b.at("pid") && a.at("tid") == b.at("tid") &&
               begin(a) <= begin(b) + tick && end(b) <= end(a) + tick;
    }

  private:
    // On a row, two events are apart or one is inside of the other; and in the file what encloses
    // comes first.
    void expect_nested() const {
        std::map<std::pair<int, int>, std::vector<nlohmann::json>> rows;
        for (const auto& e : events)
            rows[{e.at("pid"), e.at("tid")}].push_back(e);
        for (const auto& [row, list] : rows) {
            std::vector<const nlohmann::json*> open;
            for (const auto& e : list) {
                while (!open.empty() && end(*open.back()) <= begin(e) + 0.002)
                    open.pop_back();
                if (!open.empty()) {
                    EXPECT_TRUE(encloses(*open.back(), e)) << *open.back() << e;
                }
                open.push_back(&e);
            }
        }
    }
};

}  // namespace pippin::test
