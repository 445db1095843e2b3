package gitrepo

import (
	"context"
	"fmt"
	"strings"
)

// Format returns the hash that the repository names its objects by.
func (r *Repo) Format(ctx context.Context) (Format, error) {
	if s, borrows, err := r.shared(); borrows || err != nil {
		if err != nil {
			return 0, err
		}
		return s.format, nil
	}
	out, err := r.run(ctx, nil, "rev-parse", "--show-object-format")
	if err != nil {
		return 0, fmt.Errorf("read the format of a repository: %w", err)
	}
	if strings.TrimSpace(string(out)) == SHA256.String() {
		return SHA256, nil
	}
	return SHA1, nil
}
