// Package backup copies the data of a server into a folder while the server runs, and brings it
// back.
//
// A backup has these parts:
//
//	manifest.json     each file of the data: path, size, hashes
//	blocks/ab/abcd…   content of at most 64 KiB, named by its SHA-256: the database and small files
//	packs/…           packs of git objects, by their path in the data; hard links on the same disk
//
// Invariants:
//
//  1. A folder holds one backup. The manifest replaces the one before in one step, after all that
//     it names is written, verified and synced. Until then the backup before stays whole.
//  2. The backup has all data that the server acknowledged before the start. It takes the database
//     first, then git data, and nothing removes objects or repositories in between.
//  3. A backup costs what changed. Blocks and packs of the manifest before are not written again.
//  4. A restore writes nothing over data, and makes the database visible last.
package backup
