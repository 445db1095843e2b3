package postgres

import "talon/host"

// delete carries out a deletion event (NIP-09) and returns what it removed. Targets that
// are not ids or addresses of its author's are ignored. However many there are, it takes
// a few statements.
func (tx *Tx) delete(e *host.Event) (removed []*host.Event, changes []host.HeldChange, err error) {
	var ids [][]byte
	var values []string
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) {
				ids = append(ids, id[:])
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a.PubKey == e.PubKey {
				values = append(values, a.String())
			}
		}
	}
	if ids == nil && values == nil {
		return nil, nil, nil
	}
	if err := tx.flush(); err != nil {
		return nil, nil, err
	}
	if ids != nil {
		if removed, changes, err = tx.deleteIDs(unique(ids), e.PubKey); err != nil {
			return nil, nil, err
		}
	}
	if values == nil {
		return removed, changes, nil
	}
	gone, waited, err := tx.deleteAddresses(tx.s.keys.keys(nameAddress, values), e.CreatedAt)
	return append(removed, gone...), append(changes, waited...), err
}

// deleteIDs removes the author's events, and remembers that the author wants them gone,
// whether they are here or not.
func (tx *Tx) deleteIDs(ids [][]byte, author host.PubKey) (removed []*host.Event, changes []host.HeldChange, err error) {
	_, err = tx.exec(`
		INSERT INTO deleted_id SELECT x.id, $2 FROM unnest($1::bytea[]) x (id)
		WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.id = x.id AND (e.pubkey <> $2 OR e.kind = 5))
		ON CONFLICT DO NOTHING`, ids, author[:])
	if err != nil {
		return nil, nil, err
	}
	removed, err = tx.take(stored, `DELETE FROM event WHERE id = ANY($1) AND pubkey = $2 AND kind <> 5 RETURNING seq, json`, ids, author[:])
	if err != nil || tx.total.Held == 0 {
		return removed, nil, err
	}
	changes, err = tx.dropHeld(host.FateDeleted, `id = ANY($1) AND pubkey = $2 AND kind <> 5`, ids, author[:])
	return removed, changes, err
}

// deleteAddresses removes versions that are not newer than until, and remembers that none
// such is wanted. Purgatory may have several at an address.
func (tx *Tx) deleteAddresses(keys [][]byte, until int64) (removed []*host.Event, changes []host.HeldChange, err error) {
	_, err = tx.exec(`
		INSERT INTO deleted_address SELECT x.key, $2 FROM unnest($1::bytea[]) x (key)
		ON CONFLICT (key) DO UPDATE SET until = greatest(deleted_address.until, excluded.until)`, keys, until)
	if err != nil {
		return nil, nil, err
	}
	removed, err = tx.take(stored, `DELETE FROM event WHERE address = ANY($1) AND created_at <= $2 RETURNING seq, json`, keys, until)
	if err != nil || tx.total.Held == 0 {
		return removed, nil, err
	}
	changes, err = tx.dropHeld(host.FateDeleted, `address = ANY($1) AND created_at <= $2`, keys, until)
	return removed, changes, err
}
