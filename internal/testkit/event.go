package testkit

import (
	"crypto/sha256"

	"talon/host"
)

// Unsigned returns an event of an author with the right id and no signature, as it would come
// from a parser.
func Unsigned(author host.PubKey, kind host.Kind, createdAt int64, content string, tags ...host.Tag) *host.Event {
	e := &host.Event{PubKey: author, Kind: kind, CreatedAt: createdAt, Content: content, Tags: tags}
	Seal(e)
	return e
}

// Seal fills in the id and the JSON of an event that is not signed.
func Seal(e *host.Event) {
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.JSON = e.AppendJSON(nil)
}
