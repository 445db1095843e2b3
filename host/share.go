package host

import "context"

// Share is the account of a client who reads the store: clients whose reads wait for
// each other get equal parts of the time. The zero value has read nothing.
type Share struct {
	// Account belongs to the store.
	Account any
}

type shareKey struct{}

// WithShare returns a context whose reads of the store are on the account.
func WithShare(ctx context.Context, s *Share) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// ShareOf returns the account that reads with this context are on, nil if they are
// on none.
func ShareOf(ctx context.Context) *Share {
	s, _ := ctx.Value(shareKey{}).(*Share)
	return s
}
