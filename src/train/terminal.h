// What a program can know of where its output goes.
#pragma once

#include <cstdio>

namespace pippin::train {

bool is_terminal(std::FILE* out);
/// Columns of the terminal; 80 when nobody knows.
int terminal_width(std::FILE* out);
/// Whether the environment says that text is UTF-8.
bool terminal_speaks_utf8();

}  // namespace pippin::train
