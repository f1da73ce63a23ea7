// The one file of src/train that is specific to a system (POSIX).
#include "train/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace pippin::train {

bool is_terminal(std::FILE* out) {
    // mpirun gives each process a terminal of its own, wherever the output goes; the launcher says
    // so.
    return isatty(fileno(out)) == 1 && !std::getenv("PIPPIN_PLAIN_OUTPUT");
}

int terminal_width(std::FILE* out) {
    winsize size{};
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

bool terminal_speaks_utf8() {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const char* value = std::getenv(name);
        if (!value || !*value) continue;  // the first that is set decides
        const std::string_view text = value;
        return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
    }
    return false;
}

}  // namespace pippin::train
