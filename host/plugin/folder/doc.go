// Package folder reads and writes the files of plugins: the folder of plugins, which is the
// operator's, and the history of generations, which is the server's own.
//
// # The folder
//
// It holds NAME.wasm, and optionally NAME.toml and NAME.wasm.sig.
//
//  1. [Scan] skips files that are not meant to be plugins: hidden files, folders, and
//     remains of editors and copies. It reports any other file that is no plugin.
//  2. A file that exists, but cannot be read, is in the result of [Scan]; the
//     reason comes from [Read]. So a damaged file never counts as removed. For the
//     same reason a folder that cannot be read is an error, not an empty folder.
//  3. [Read] returns a file as it was at its [Stamp], or an error.
//  4. [Watch] calls back for every change, at the latest after [WatchOptions.Poll],
//     also where the system reports none: network file systems, the targets of
//     symbolic links, a folder that was removed and made again.
//
// # The history
//
// A [History] keeps the generations of plugins that ran, so that a restart and a rollback
// find them, also after changes in the folder of plugins. A [Record] for each name is a
// JSON file. The modules are in the same folder, each once, under the SHA-256 of its bytes.
// One process at a time uses a history.
//
//  1. A change is durable before its method returns. A crash at any point leaves
//     the record before the change, or the one after it.
//  2. All modules that a record names exist: a module is written before the
//     record, and deleted after the last record that names it has changed.
//  3. A module is returned only if it has the SHA-256 that was asked for.
//  4. [OpenHistory] fails only if it cannot make or read the folder. It sets damaged files
//     aside, and [History.Problems] lists them.
//
// The package does not interpret the files of plugins.
package folder
