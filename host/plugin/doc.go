// Package plugin runs WebAssembly modules that an operator chose. It owns
// wazero: nothing else in the host knows what a module is.
//
// A file becomes a [Module] in steps that each can refuse it with a sentence:
// read the manifest without running anything, check the configuration against
// it, add metering (package meter), compile, audit imports and exports, and make
// and configure a first instance. A [Chain] asks its modules in order about each
// item; the first ruling that is not Pass decides.
//
// Invariants:
//
//  1. No module, whatever its bytes, ends the process, blocks a caller for
//     longer than its fuel and the limits of host functions allow, or uses more
//     memory than its cap. See [Limits].
//  2. A module reaches nothing but the host functions that its manifest asks for.
//     The WASI functions that toolchains import know no file, no network and no
//     clock but the time of the decision.
//  3. An instance serves one call at a time. An instance that trapped, ran out
//     of fuel or answered garbage is closed and never called again.
//  4. What a module says reaches a client only as a valid reason: one line of
//     UTF-8 with a standard prefix, at most 1 KiB.
//  5. A decision allocates nothing on the host, unless it gives a reason that
//     the instance did not give last time or reads the store.
//
// The package never writes to the store, and calls no module from more than one
// place: the policy stage of the pipeline.
package plugin
