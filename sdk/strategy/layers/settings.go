package layers

import (
	"strconv"

	"talon/sdk/strategy"
)

// Common reads the settings that all the layered strategies have under the same
// name.
func Common(cfg strategy.Config) (Settings, error) {
	set := Settings{
		Values:      int(cfg.Int("values_per_filter")),
		Connections: int(cfg.Int("max_relays")),
		Page:        uint32(cfg.Int("page_events")),
		Margin:      cfg.Int("since_margin_minutes") * strategy.Minute / strategy.Second,
		Check:       cfg.Int("check_seconds") * strategy.Second,
		Visit:       visitHours(cfg),
	}
	for _, kind := range cfg.Ints("own_kinds") {
		switch kind {
		case 30617, 1617, 1618, 1619, 1621:
			set.Kinds = append(set.Kinds, uint32(kind))
		default:
			return set, strategy.WrongValue("own_kinds", strconv.FormatInt(kind, 10), "some of 30617, 1617, 1618, 1619, 1621")
		}
	}
	return set, nil
}

// Hours reads two settings, the least and the most hours, and returns the least,
// and what is over up to the most, in milliseconds.
func Hours(cfg strategy.Config, from, to string) (least, over int64, err error) {
	least, most := cfg.Int(from)*strategy.Hour, cfg.Int(to)*strategy.Hour
	if most < least {
		return 0, 0, strategy.WrongValue(to, strconv.FormatInt(most/strategy.Hour, 10), "at least as many hours as "+from)
	}
	return least, most - least + 1, nil
}
