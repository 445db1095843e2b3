// Package folder keeps on the disk what plugins are made of: the folder of plugins, which
// is the operator's, and the history of what ran, which is the server's own.
//
// # The folder
//
// It holds NAME.wasm, and optionally NAME.toml and NAME.wasm.sig.
//
//  1. [Scan] passes over what is not meant to be a plugin: hidden files, folders,
//     what editors and copying leave behind. Whatever else cannot be one, it says.
//  2. A file that is there, but cannot be read, is in the result of [Scan]; the
//     reason comes from [Read]. So a file that went wrong is never taken for one
//     that was removed. For the same reason a folder that cannot be read is an
//     error, not an empty folder.
//  3. [Read] returns a file as it was at its [Stamp], or an error.
//  4. [Watch] calls back for every change, at the latest after [WatchOptions.Poll],
//     also where the system reports none: network file systems, the targets of
//     symbolic links, a folder that was removed and made again.
//
// # The history
//
// A [History] keeps the generations of plugins that ran, so that a restart and a rollback
// find them, whatever has happened to the folder of plugins. A [Record] for each name is a
// JSON file. The modules are in the same folder, each once, under the SHA-256 of its bytes.
// One process at a time uses a history.
//
//  1. A change is durable before its method returns. A crash at any point leaves
//     the record before the change, or the one after it.
//  2. All modules that a record names exist: a module is written before the
//     record, and deleted after the last record that names it has changed.
//  3. A module is returned only if it has the SHA-256 that was asked for.
//  4. Nothing on the disk makes [OpenHistory] fail, unless it cannot make or read the
//     folder: what is damaged is set aside, and [History.Problems] says so.
//
// The package does not know what is in the files of plugins.
package folder
