// Files that tools/make_fixtures.py wrote: cases, inputs, what PyTorch got, and how near is equal.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/generate.h"
#include "pippin/io.h"
#include "pippin/ops.h"

namespace pippin::test {

/// A JSON number, or "nan", "inf", "-inf".
double number(const Json& j);
/// One file with its cases.
class Fixture {
  public:
    explicit Fixture(const std::string& name);
    const Json& cases() const { return cases_; }
    Tensor tensor(const std::string& name) const { return file_.tensor(name); }

    /// Empty where `got` is what the case expects (the name of a tensor in the file, or a digest of
    /// a large one); else what differs. `scale` widens the tolerance of the dtype.
    std::string difference(const Tensor& got, const Json& expected, double scale) const;

  private:
    io::SafeTensors file_;
    Json cases_;
};

/// The files of op cases.
const std::vector<std::string>& case_files();

/// What a case says: tensors (undefined for null), numbers and named arguments.
struct Call {
    std::vector<Tensor> tensors;
    std::vector<Json> numbers;  ///< at the positions of numbers; null at those of tensors
    Json args;

    const Tensor& tensor(std::size_t i) const;
    Tensor optional_tensor(std::size_t i) const;
    Operand operand(std::size_t i) const;
    bool has(const char* name) const { return args.contains(name) && !args[name].is_null(); }
    double real(const char* name, double otherwise) const;
    std::int64_t integer(const char* name, std::int64_t otherwise) const;
    bool flag(const char* name, bool otherwise) const;
    Dims dims(const char* name) const;
    Options options() const;  ///< the argument "dtype"
};

/// Runs the op of this name; throws std::out_of_range for one it does not know.
std::vector<Tensor> dispatch(const std::string& op, const Call& call);
std::vector<std::string> dispatched_ops();

}  // namespace pippin::test
