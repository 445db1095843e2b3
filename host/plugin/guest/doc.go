// Package guest runs one loaded WebAssembly module. It owns wazero: no other package of
// the host handles the content of a module. Package plugin has the list of modules, their
// order, and the reactions to failures.
//
// [Load] turns a file into a [Module]. It reads the manifest without running anything, and
// checks the configuration and the budgets against it. It adds metering (package meter),
// compiles, and audits imports and exports. Then it creates and configures a first
// instance. Each of these steps can refuse the file with a sentence. [SelfTest] then runs
// the first requests, by the compiler and by the interpreter.
//
// The host keeps compiled code (codecache.go) as machine code and the shell of the module
// (meter.Shell). The code may also come with the program (prepared.go). A module holds no
// code and no instance if its configuration makes it pass every request. A policy that
// nobody has called for a minute leaves the memory, until the next call (engine.go).
//
// A policy is asked with [Module.Rule], by many goroutines concurrently, over a pool
// of instances. A strategy or throttle is a [Reducer]: one instance that keeps what it
// knows in its own memory.
//
// Invariants:
//
//  1. No module, with any bytes, ends the process, blocks a caller for longer than
//     its fuel and the guard of its reads allow, or uses more memory than its cap. See
//     [Limits]. Loading one is bounded as well: package meter refuses code that would
//     take long to compile. Compiling and self-tests have a time limit, or happen
//     elsewhere ([Options.Elsewhere]).
//  2. A module reaches nothing but the host functions that its manifest asks for
//     and the operator grants. The WASI functions that toolchains import know no
//     file, no network and no clock but the time of the call.
//  3. An instance serves one call at a time. An instance that trapped, ran out
//     of fuel or answered garbage is closed and never called again.
//  4. Text of a module reaches a client only as a valid reason: one line of
//     UTF-8 with a standard prefix, at most 1 KiB. Its labels of metrics are
//     bounded for each plugin name, over all its generations.
//  5. A call allocates nothing on the host, unless it gives a reason that the
//     instance did not give last time, reads store, purgatory or repositories, or
//     changes what it remembers.
//  6. If the host cannot read a fact, [Module.Rule] returns an error in place of the
//     module's answer. A reducer gets Unavailable, and goes on.
//  7. A module that was closed leaves nothing: no goroutine, file or memory.
//
// The package never writes to the store.
package guest
