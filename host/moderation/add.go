package moderation

// Rows is the table of the log in the open transaction of an engine.
type Rows interface {
	// LastModeration returns the number and the time of the last row, zeros for an empty log.
	LastModeration() (number, at int64, err error)

	// HasModeration reports whether a row with this UID is there.
	HasModeration(uid string) (bool, error)

	// InsertModeration adds a row.
	InsertModeration(r *Row) error
}

// Add adds rows, and returns those that were new, with their numbers. A row without a time
// gets the present. A row whose UID is there is left out: a log may be merged again.
func Add(rows Rows, list []Row, now int64) (added []Row, err error) {
	number, last, err := rows.LastModeration()
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if err := r.Check(); err != nil {
			return nil, err
		}
		there, err := rows.HasModeration(r.UID)
		if err != nil {
			return nil, err
		}
		if there {
			continue
		}
		if r.At == 0 {
			r.At = max(now, last) // a clock that goes back must not revive what a row has ended
			last = r.At
		}
		number++
		r.Number = number
		if err := rows.InsertModeration(&r); err != nil {
			return nil, err
		}
		added = append(added, r)
	}
	return added, nil
}

// Missing returns the rows of a list that another does not have.
func Missing(list, from []Row) (missing []Row) {
	there := make(map[string]struct{}, len(from))
	for i := range from {
		there[from[i].UID] = struct{}{}
	}
	for _, r := range list {
		if _, ok := there[r.UID]; !ok {
			missing = append(missing, r)
		}
	}
	return missing
}
