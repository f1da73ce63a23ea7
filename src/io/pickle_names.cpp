#include "io/pickle_names.h"

#include <algorithm>
#include <iterator>

namespace pippin::io {
namespace {

constexpr StorageType kStorages[] = {
    {"FloatStorage", 4, DType::Float32},       {"DoubleStorage", 8, DType::Float64},
    {"HalfStorage", 2, DType::Float16},        {"BFloat16Storage", 2, DType::BFloat16},
    {"LongStorage", 8, DType::Int64},          {"IntStorage", 4, DType::Int32},
    {"ByteStorage", 1, DType::UInt8},          {"BoolStorage", 1, DType::Bool},
    {"CharStorage", 1, std::nullopt},          {"ShortStorage", 2, std::nullopt},
    {"ComplexFloatStorage", 8, std::nullopt},  {"ComplexDoubleStorage", 16, std::nullopt},
    {"Float8_e4m3fnStorage", 1, std::nullopt}, {"Float8_e5m2Storage", 1, std::nullopt},
};

struct Known {
    std::string_view module, name;
    PickleGlobal global;
};
constexpr Known kGlobals[] = {
    {"collections", "OrderedDict", PickleGlobal::OrderedDict},
    {"torch", "Size", PickleGlobal::Size},
    {"torch._utils", "_rebuild_tensor_v2", PickleGlobal::RebuildTensor},
    {"torch._utils", "_rebuild_parameter", PickleGlobal::RebuildParameter},
};

struct Instruction {
    std::uint8_t byte;
    std::string_view name;
};
// Those of Python's pickletools, protocols 0 to 5.
constexpr Instruction kInstructions[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST"},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {0x80, "PROTO"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {0x8a, "LONG1"},
    {0x8b, "LONG4"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

}  // namespace

std::optional<FoundGlobal> find_pickle_global(std::string_view module, std::string_view name) {
    for (const Known& k : kGlobals)
        if (k.module == module && k.name == name) return FoundGlobal{k.global};
    if (module == "torch")
        for (const StorageType& t : kStorages)
            if (t.name == name) return FoundGlobal{PickleGlobal::Storage, &t};
    return std::nullopt;
}

std::int64_t number_of(const StorageType* type) { return type - std::begin(kStorages); }

const StorageType* storage_type(std::int64_t number) { return kStorages + number; }

std::string_view pickle_instruction(std::uint8_t byte) {
    for (const Instruction& i : kInstructions)
        if (i.byte == byte) return i.name;
    return {};
}

}  // namespace pippin::io
