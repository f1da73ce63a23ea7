// Exceptions. Every message says what was wrong, with the op, shapes, dtypes and the
// user's call site where they are known, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace pippin {

/// Where the user called from; a defaulted last parameter of every public op. (std::source_location
/// is missing from clang 14 with libstdc++ 12.)
class Site {
  public:
    static constexpr Site current(const char* file = __builtin_FILE(),
                                  unsigned line = __builtin_LINE(),
                                  const char* function = __builtin_FUNCTION()) {
        Site s;
        s.file_ = file;
        s.line_ = line;
        s.function_ = function;
        return s;
    }
    constexpr const char* file_name() const { return file_; }
    constexpr unsigned line() const { return line_; }
    constexpr const char* function_name() const { return function_; }

  private:
    const char* file_ = "";
    const char* function_ = "";
    unsigned line_ = 0;
};

/// Base of all exceptions that Pippin throws on purpose.
class Error : public std::runtime_error {
  public:
    explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// A shape, dimension or argument that the op cannot take.
class ValueError : public Error {
  public:
    using Error::Error;
};

/// A dtype that the op cannot take, or tensors whose dtypes do not go together.
class TypeError : public Error {
  public:
    using Error::Error;
};

/// An index, label or token id outside of its range.
class IndexError : public Error {
  public:
    using Error::Error;
};

/// A file or folder that is missing, unreadable, truncated or malformed.
class FileError : public Error {
  public:
    using Error::Error;
};

/// Tensors on different devices, an absent device, or a device that failed.
class DeviceError : public Error {
  public:
    using Error::Error;
};

/// The device has no room for what was asked, after all caches were released.
class OutOfMemoryError : public Error {
  public:
    using Error::Error;
};

}  // namespace pippin
