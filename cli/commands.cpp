#include "commands.h"

#include <algorithm>

namespace pippin::cli {

static std::vector<Command>& registered() {
    static std::vector<Command> all;
    return all;
}

Register::Register(Command command) { registered().push_back(std::move(command)); }

std::vector<Command> commands() {
    std::vector<Command> all = registered();
    std::sort(all.begin(), all.end(),
              [](const Command& a, const Command& b) { return a.name < b.name; });
    return all;
}

std::string flag(const std::string& name) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    return dashed == name ? "--" + name : "--" + name + ",--" + dashed;
}

}  // namespace pippin::cli
