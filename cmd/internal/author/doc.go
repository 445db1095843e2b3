// Package author has the tools for authors of modules: it creates a folder that builds,
// builds it, and calls a module without a relay. It holds the machinery of the commands
// talon plugin new, build, inspect, test, run, replay, bench, diff, exec, sign and
// verify.
//
// Modules run as they do in a relay, by package guest, with the same limits. What a
// relay would know stands in files: stored events ([ReadEvents]), settings and sets
// (the side-car), requests ([Clock.Questions]). What a module remembers lives in memory.
//
// Invariants:
//
//  1. Nothing here needs a network. A compiler is run with everything turned off
//     by which it might fetch something.
//  2. The same files give the same answers: the clock of a decision is in its
//     request.
//  3. An error is one sentence that says what is wrong and what to do. What a
//     module or a file says is quoted, and bounded.
//  4. A line of input takes bounded memory, whatever its bytes.
//  5. No file is changed that was there before, but the module that a build makes
//     and the output files that a command's options name.
package author
