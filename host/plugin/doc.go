// Package plugin keeps the plugins of a relay: WebAssembly modules that an
// operator drops into a folder, and that decide while the relay runs.
//
// A [Registry] looks at the folder. It turns each NAME.wasm, with its optional side-car
// NAME.toml, into a generation. It reads the side-car (package sidecar), then checks the
// pin and the signature, if one is required ([VerifySignature]). It loads the module:
// manifest, audit, metering, compiler and configuration (package guest). Then it runs the
// self-test of the module by compiler and interpreter. Each of these steps can refuse the
// file with a sentence. A refused generation is in quarantine, and the one before it keeps
// running. A generation that passed goes into the history (package folder), where a restart
// and a rollback find it, and into the next active set.
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
//  2. A running generation has passed every check, with this side-car. A bad file in
//     the folder never ends the generation that ran before it.
//  3. A generation is closed when nobody can call it any more, and then immediately:
//     instances, compiled code and runtime.
//  4. A plugin in shadow mode does not change answers, nor make them wait for the
//     store again.
//  5. The state of a plugin (package state) belongs to its name, and survives
//     swaps, rollbacks and restarts.
//  6. A restart decides as before it: with the last good generation where the
//     folder holds something worse, and not at all where there is none.
//  7. Servers that share plugins ([Nodes]) change them together: a server whose
//     plugins are not those that the others have agreed on decides nothing.
package plugin
