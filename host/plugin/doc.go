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
// [Registry.Record] records decisions.
//
// Files, by stage:
//
//   - open.go, reconcile.go, build.go, switch.go and apply.go bring files into use.
//   - decide.go, chain.go, ask.go and shadow.go decide.
//   - trace.go, journal.go, recording.go and disputes.go keep how a decision was taken.
//   - status.go, describe.go and health.go report the state.
//   - nodes.go, propose.go and others.go share plugins between servers.
//
// An active set has all plugins that decide at one moment. Decisions enter it and leave it.
// The last one to leave a replaced active set closes the modules that only this set used.
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
//  6. A restart decides as before it. If the folder holds a bad file, the last good
//     generation decides. If there is none, the server does not start.
//  7. Servers that share plugins ([Nodes]) change them together. A server decides
//     nothing while its plugins differ from those that the others have agreed on.
package plugin
