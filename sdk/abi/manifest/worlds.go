package manifest

import "slices"

// Worlds beside [WorldPolicy].
const (
	WorldStrategy = "strategy" // what to subscribe to on which relay, and when
	WorldThrottle = "throttle" // how hard to press on other people's servers
)

// worlds holds each world's functions, in the order in which they are listed.
var worlds = []struct {
	name      string
	functions []string
}{
	{WorldPolicy, []string{"admit", "query", "connect", "push"}},
	{WorldStrategy, []string{"step"}},
	{WorldThrottle, []string{"throttle_delay", "throttle_admit", "throttle_after", "throttle_pick", "throttle_tick"}},
}

// Functions returns the names of a world's functions, as a manifest lists them;
// nil for a world that does not exist. A function's name belongs to one world.
func Functions(world string) []string {
	for _, w := range worlds {
		if w.name == world {
			return slices.Clone(w.functions)
		}
	}
	return nil
}

// Export returns the name of the export that implements a function, and whether
// there is a function of that name.
func Export(function string) (export string, ok bool) {
	for _, w := range worlds {
		if slices.Contains(w.functions, function) {
			return "talon_" + function, true
		}
	}
	return "", false
}
