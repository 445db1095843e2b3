// Package folder reads, writes and watches the folder of plugins: NAME.wasm, and
// beside it NAME.toml and NAME.wasm.sig.
//
// Invariants:
//
//  1. [Scan] passes over what is not meant to be a plugin: hidden files, folders,
//     what editors and copying leave behind. Whatever else cannot be one, it says.
//  2. A file that is there, but cannot be read, is in the result of [Scan]; the
//     reason comes from [Read]. So a file that went wrong is never taken for one
//     that was removed. For the same reason a folder that cannot be read is an
//     error, not an empty folder.
//  3. [Read] returns a file as it was at its [Stamp], or an error.
//  4. [Watch] calls back for every change, at the latest after [Options.Poll],
//     also where the system reports none: network file systems, the targets of
//     symbolic links, a folder that was removed and made again.
//
// The package does not know what is in the files.
package folder
