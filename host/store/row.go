package store

import (
	"database/sql/driver"

	"talon/host"
	"talon/host/wire"
)

const (
	fetchRows  = 256
	fetchBytes = 1 << 20

	// shortText is up to how many bytes a packed text comes out of SQLite together with
	// others.
	shortText = fetchBytes / fetchRows / 2
)

// text is the JSON of a row.
type text struct {
	seq  int64
	json []byte
}

// parseRow reads the event of a row of table event.
func parseRow(packed []byte) (*host.Event, error) {
	text, err := unpack(nil, packed)
	if err != nil {
		return nil, err
	}
	return wire.ParseEvent(text)
}

// parseStored reads the event of the columns json and audience of table event.
func parseStored(packed, audience driver.Value) (*host.Event, error) {
	text, _ := packed.([]byte)
	e, err := parseRow(text)
	if err != nil {
		return nil, err
	}
	e.Audience, err = audienceOf(audience)
	return e, err
}

// audienceOf reads a column audience.
func audienceOf(column driver.Value) (*host.Audience, error) {
	b, _ := column.([]byte)
	return host.ParseAudience(b)
}
