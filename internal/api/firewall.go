package api

// Firewall is what core answers to the methods "firewall", "firewall-set",
// "firewall-confirm" and "firewall-undo".
type Firewall struct {
	// State: on, off; failed: not as it is set; absent: the kernel has no
	// nftables; changed: somebody else has changed the rules.
	State   string `json:"state"`
	Set     bool   `json:"set"`               // it is wanted
	Allow   string `json:"allow,omitempty"`   // as FIREWALL_ALLOW
	Problem string `json:"problem,omitempty"` // why it is not as wanted
	// Confirm is for how long at most, in seconds, what is in force stays so
	// without "firewall-confirm"; absent: it is what the settings say.
	Confirm float64        `json:"confirmSeconds,omitempty"`
	Rules   []FirewallRule `json:"rules,omitempty"`   // in their order: the first that fits counts
	Dropped []FirewallPort `json:"dropped,omitempty"` // within the last hour, the most first
}

// FirewallRule is one, and what has met it since it was made.
type FirewallRule struct {
	Text    string `json:"text"`
	Drop    bool   `json:"drop,omitempty"` // else it lets in
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// FirewallPort is a port that packets were dropped for.
type FirewallPort struct {
	Port    string `json:"port"` // tcp/23
	Packets uint64 `json:"packets"`
}

// FirewallSet go with core's method "firewall-set". What is absent stays.
type FirewallSet struct {
	On    *bool   `json:"on,omitempty"`
	Allow *string `json:"allow,omitempty"` // as FIREWALL_ALLOW
}
