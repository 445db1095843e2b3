// Package plugin keeps the plugins of a relay: WebAssembly modules that an
// operator drops into a folder, and that decide while the relay runs.
//
// A [Registry] looks at the folder. Each NAME.wasm, with the side-car NAME.toml if
// there is one, becomes a generation in steps that each can refuse it with a
// sentence: read the side-car (package sidecar), check the pin, and the signature if
// there must be one ([VerifySignature]), load the module (package guest: manifest, audit,
// metering, compiler, configuration), run its self-test by compiler and interpreter.
// A refused generation is in quarantine, and the one before it keeps running. A generation
// that passed goes into the history (package folder), where a restart and a rollback find
// it, and into the next active set.
//
// A side-car without a module can name a program of the operator's instead
// (processes.go, strfry.go), if programs are allowed: it answers [Registry.Admit] alone.
//
// Somebody may record what is decided ([Registry.Record]).
//
// An active set is all that decides at one moment. Decisions enter it, and the last
// one to leave an active set that has been replaced closes what only that active set
// used.
//
// Invariants:
//
//  1. A decision is taken by one active set, from its first plugin to its last. No
//     request waits for a swap, is lost by one, or is answered by two.
//  2. What runs has passed every check, with this side-car. Nothing that a file of
//     the folder holds ends what ran before it.
//  3. A generation is closed when nobody can call it any more, and then immediately:
//     instances, compiled code and runtime.
//  4. A plugin in shadow mode changes no answer and makes none wait for the store
//     again.
//  5. What a plugin remembers (package state) belongs to its name, and survives
//     swaps, rollbacks and restarts.
//  6. A restart decides as before it: with the last good generation where the
//     folder holds something worse, and not at all where there is none.
//  7. Servers that share plugins ([Nodes]) change them together: a server whose
//     plugins are not those that the others have agreed on decides nothing.
package plugin
