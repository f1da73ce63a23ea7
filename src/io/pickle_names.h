// Names in pickles: the instructions, and the globals that a checkpoint may refer to.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/pickle.h"

namespace pippin::io {

/// What a checkpoint may call or name; storage types are Global::Storage.
enum class PickleGlobal : std::uint8_t {
    OrderedDict,
    Size,
    RebuildTensor,
    RebuildParameter,
    Storage
};

struct FoundGlobal {
    PickleGlobal global;
    const StorageType* storage = nullptr;
};

/// Nothing for a global that is refused.
std::optional<FoundGlobal> find_pickle_global(std::string_view module, std::string_view name);
/// The place of a storage type in its list, and back.
std::int64_t number_of(const StorageType* type);
const StorageType* storage_type(std::int64_t number);
/// "GLOBAL"; empty for a byte that is no instruction.
std::string_view pickle_instruction(std::uint8_t byte);

}  // namespace pippin::io
