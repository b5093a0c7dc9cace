package gwctl

import (
	"flag"

	"gwinit/internal/metrics"
)

// figures are gwctl metrics.
func figures(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		if err := noArguments(e.name, args); err != nil {
			return err
		}
		c, err := e.open()
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := metrics.Collect(e.ctx, c.Do)
		if err != nil {
			return err
		}
		text := metrics.Append(nil, s)
		if e.json {
			return e.print(struct {
				Text string `json:"text"`
			}{string(text)})
		}
		_, err = e.std.Out.Write(text)
		return err
	}
}
