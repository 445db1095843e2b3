// Package gitremote is a remote helper of git (gitremote-helpers) that pushes over smart
// HTTP: git speaks to it as to a server at the other end of a pipe, and it passes the push
// on as one request.
//
// git's own helper for HTTP hands every ref of a push to a second process, which compares
// each of them with every ref of the local repository: 20,000 branches take it minutes, and
// a dry run as long again. As git itself makes the push here, time grows with their number.
//
// It pushes and does nothing else, and it knows nothing of git's settings for HTTP.
package gitremote
