package daemon

import (
	"testing"

	"talon/host/config"
	"talon/host/relay"
)

// The values of subscriptions fit in a quarter of the memory, unless the operator says how many
// there may be.
func TestSubscriptionValues(t *testing.T) {
	for _, c := range []struct {
		memory   int64
		chosen   int
		one, all int
	}{
		{1 << 30, 0, 200_000, 1_600_000},
		{4 << 30, 0, 200_000, 1_600_000},
		{128 << 20, 0, 25_115, 200_924},
		{128 << 20, 200_000, 200_000, 1_600_000},
	} {
		one, all := subscriptionValues(&config.Config{Memory: c.memory, SubscriptionValues: c.chosen})
		if one != c.one || all != c.all {
			t.Errorf("memory %d, chosen %d: %d and %d, want %d and %d", c.memory, c.chosen, one, all, c.one, c.all)
		}
	}
	if relay.DefaultLimits.ValuesTotal != 8*relay.DefaultLimits.Values {
		t.Error("a connection does not get the share of a network")
	}
}
