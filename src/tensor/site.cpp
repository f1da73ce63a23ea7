#include "tensor/site.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace pippin {
namespace {

thread_local std::optional<Site> outermost;

template <class E>
[[noreturn]] void add(const E& e, const Site& site) {
    // An inner op has named its site already; the outermost one is the same on this thread.
    const std::string_view text = e.what();
    if (text.find("\n  at ") != std::string_view::npos) throw e;
    const Site& s = outermost ? *outermost : site;
    throw E(fmt::format("{}\n  at {}:{} in {}", text, s.file_name(), s.line(), s.function_name()));
}

}  // namespace

SiteScope::SiteScope(const Site& site) : owner_(!outermost) {
    if (owner_) outermost = site;
}

SiteScope::~SiteScope() {
    if (owner_) outermost.reset();
}

void rethrow_at(const Site& site) {
    try {
        throw;
    } catch (const ValueError& e) {
        add(e, site);
    } catch (const TypeError& e) {
        add(e, site);
    } catch (const IndexError& e) {
        add(e, site);
    } catch (const FileError& e) {
        add(e, site);
    } catch (const DeviceError& e) {
        add(e, site);
    } catch (const OutOfMemoryError& e) {
        add(e, site);
    } catch (const Error& e) {
        add(e, site);
    }
}

}  // namespace pippin
