// Questions to a person: a menu with arrow keys on a terminal, plain lines elsewhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pippin::cli {

/// Which of the options, by arrow keys and Enter or by number. Asks again after a bad answer.
/// ValueError when the input ends.
std::size_t choose(const std::string& question, const std::vector<std::string>& options,
                   std::size_t preselected);
bool ask_yes_no(const std::string& question, bool preselected);
/// A line. `check` gives "" or what is wrong, and then it is asked again.
std::string ask(const std::string& question, const std::string& preselected,
                const std::function<std::string(const std::string&)>& check);

}  // namespace pippin::cli
