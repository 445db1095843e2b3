package store

import (
	"context"

	"talon/host"
)

// DeletedAddress reports whether the author has deleted the version of that time
// at the address, in unix seconds: a deletion event (NIP-09) names the address and
// is not older. Such a version is never stored, nor held.
func (s *Store) DeletedAddress(ctx context.Context, a host.Address, createdAt int64) (deleted bool, err error) {
	err = s.use(ctx, opDeleted, func(r *reader) error {
		row, err := r.first(`SELECT 1 FROM deleted_address WHERE key = ? AND until >= ?`, r.keys.address(a), createdAt)
		deleted = row != nil
		return err
	})
	return deleted, err
}
