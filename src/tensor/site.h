// Errors name the user's line: the outermost call site into the library on this thread.
#pragma once

#include <utility>

#include "pippin/error.h"

namespace pippin {

/// Marks `site` as the user's, unless an outer one is already set (a module calling ops).
class SiteScope {
  public:
    explicit SiteScope(const Site& site);
    ~SiteScope();
    SiteScope(const SiteScope&) = delete;
    SiteScope& operator=(const SiteScope&) = delete;

  private:
    bool owner_;
};

/// Within a catch block: rethrows a Pippin error of the same type with the call site added.
[[noreturn]] void rethrow_at(const Site& site);

/// Runs f; errors from it name the site.
template <class F>
decltype(auto) at_site(const Site& site, F&& f) {
    try {
        return std::forward<F>(f)();
    } catch (const Error&) {
        rethrow_at(site);
    }
}

}  // namespace pippin
