// EXPECT_ERROR(statement, FileError, "part", "another"): it throws exactly this exception, and the
// message has all the parts.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <initializer_list>
#include <string>
#include <typeinfo>

namespace pippin::test {

template <class E, class F>
::testing::AssertionResult throws(F f, std::initializer_list<std::string> parts) {
    try {
        f();
    } catch (const std::exception& e) {
        if (typeid(e) != typeid(E))
            return ::testing::AssertionFailure()
                   << "threw " << typeid(e).name() << " instead: " << e.what();
        for (const std::string& part : parts)
            if (std::string(e.what()).find(part) == std::string::npos)
                return ::testing::AssertionFailure()
                       << "\"" << part << "\" is not in the message: " << e.what();
        return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "threw nothing";
}

}  // namespace pippin::test

#define EXPECT_ERROR(statement, type, ...) \
    EXPECT_TRUE((::pippin::test::throws<type>([&] { statement; }, {__VA_ARGS__})))
