package edits

import (
	"fmt"
	"strings"
)

// Markdown lists every edit with its reason, subject by subject: the text of
// docs/toolchain-edits.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# What is edited in Go, and why\n\nMade by `go run ./toolchain/rlx edits > docs/toolchain-edits.md`.\n")
	list(&b, Subjects())
	for _, m := range Modules() {
		b.WriteString("\n# What is edited in " + m.Path + "\n")
		list(&b, m.Subjects)
	}
	return b.String()
}

func list(b *strings.Builder, subjects []Subject) {
	for _, s := range subjects {
		fmt.Fprintf(b, "\n## %s\n", s.Name)
		if len(s.Added) > 0 {
			fmt.Fprintf(b, "\nAdds `%s`.\n", strings.Join(s.Added, "`, `"))
		}
		file := ""
		for _, e := range s.Edits {
			if e.File != file {
				file = e.File
				fmt.Fprintf(b, "\n`%s`\n\n", file)
			}
			fmt.Fprintf(b, "- **%s**: %s\n", e.Name, strings.ReplaceAll(e.Why, "\n", "\n  "))
		}
	}
}
