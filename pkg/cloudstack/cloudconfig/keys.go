// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudconfig

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one key of the file. Parse, Render, Validate, MarshalJSON, Differences and the README use the table keys.
type key struct {
	name    string
	doc     string // what the value is
	example string
	// secret means that no text may show the value.
	secret bool
	// atStart is true if a change takes effect only when the controller restarts.
	atStart bool

	set func(c *Config, value string) error
	get func(c *Config) string // the value as Render writes it; "" if there is none
	// check returns what is wrong with a value, which may be missing; check may be nil.
	check func(c *Config) error
}

const autoRate = "auto" // the value of rate-limit

// keys holds all keys, in the order in which Render writes them.
var keys = []key{
	text(key{name: "api-url", doc: "address of the API", example: exampleURL, check: func(c *Config) error {
		_, err := c.Endpoint()
		return err
	}}, func(c *Config) *string { return &c.APIURL }),
	credential(key{name: "api-key", doc: "API key of the CloudStack user", example: "...", secret: true},
		func(c *Config) *string { return &c.APIKey }),
	credential(key{name: "secret-key", doc: "secret key that belongs to api-key", example: "...", secret: true},
		func(c *Config) *string { return &c.SecretKey }),
	text(key{name: "project-id", doc: "UUID or name, optional", atStart: true},
		func(c *Config) *string { return &c.ProjectID }),
	text(key{name: "zone", doc: "name or ID, optional", example: "zone-1", atStart: true},
		func(c *Config) *string { return &c.Zone }),
	{
		name:    "node-vms",
		doc:     "VMs that may be nodes: a pattern of names, or a tag as key=value; default: all",
		example: "prod-*",
		atStart: true,
		set: func(c *Config, v string) error {
			if _, err := path.Match(v, ""); err != nil {
				return errors.New("is not a pattern; write for example prod-*, or cluster=prod for a tag")
			}
			c.NodeVMs = v
			return nil
		},
		get: func(c *Config) string { return c.NodeVMs },
	},
	text(key{name: "region", doc: "value of the Nodes' region label; default: the zone's name", atStart: true},
		func(c *Config) *string { return &c.Region }),
	{
		name: "ssl-no-verify", doc: "true trusts any certificate", example: "false",
		set: func(c *Config, v string) (err error) { c.SSLNoVerify, err = parseBool(v); return err },
		get: func(c *Config) string { return map[bool]string{true: "true"}[c.SSLNoVerify] },
	},
	text(key{name: "ca-file", doc: "PEM file with the certificates to trust for the API"},
		func(c *Config) *string { return &c.CAFile }),
	duration(key{name: "timeout", doc: "of one HTTP call", example: "60s", atStart: true},
		func(c *Config) *time.Duration { return &c.Timeout }),
	duration(key{name: "job-timeout", doc: "of one asynchronous job", example: "10m", atStart: true},
		func(c *Config) *time.Duration { return &c.JobTimeout }),
	{
		name:    "rate-limit",
		doc:     "API calls per second; auto: what the server allows; 0: unlimited",
		example: "auto",
		atStart: true,
		set: func(c *Config, v string) error {
			if strings.EqualFold(v, autoRate) {
				c.RateLimit = AutoRate
				return nil
			}
			f, err := strconv.ParseFloat(v, 64)
			if err != nil || f < 0 || math.IsNaN(f) || math.IsInf(f, 0) {
				return errors.New("is not a number of calls per second; write auto, or for example 20, or 0 " +
					"for unlimited")
			}
			c.RateLimit = f
			return nil
		},
		get: func(c *Config) string {
			if c.RateLimit == AutoRate {
				return autoRate
			}
			return strconv.FormatFloat(c.RateLimit, 'f', -1, 64)
		},
	},
	{
		name: "rate-burst", doc: "API calls at once, with a number as rate-limit", example: "40", atStart: true,
		set: func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 {
				return errors.New("is not a whole number above 0; write for example 40")
			}
			c.RateBurst = n
			return nil
		},
		get: func(c *Config) string {
			if c.RateBurst <= 0 {
				return ""
			}
			return strconv.Itoa(c.RateBurst)
		},
	},
	{
		name:    "lb-mode",
		doc:     "how Services without the annotation cloudstack-load-balancer-mode are served: auto, proxy or direct",
		example: "auto",
		atStart: true,
		set: func(c *Config, v string) error {
			if c.LBMode = strings.ToLower(v); !slices.Contains(modes, c.LBMode) {
				return errors.New("is not a mode; write auto, proxy or direct")
			}
			return nil
		},
		get: func(c *Config) string { return c.LBMode },
	},
	text(key{name: "cluster-id", doc: "name of the cluster in tags, see clusterID of the chart", atStart: true},
		func(c *Config) *string { return &c.ClusterID }),
	{
		name:    "former-cluster-ids",
		doc:     "IDs under which this cluster tagged its objects earlier, separated by commas",
		example: "kubernetes, prod-1",
		atStart: true,
		set: func(c *Config, v string) error {
			c.FormerClusterIDs = nil
			for id := range strings.SplitSeq(v, ",") {
				if id = strings.TrimSpace(id); id != "" && !slices.Contains(c.FormerClusterIDs, id) {
					c.FormerClusterIDs = append(c.FormerClusterIDs, id)
				}
			}
			return nil
		},
		get: func(c *Config) string { return strings.Join(c.FormerClusterIDs, ",") },
	},
}

// modes are the same as in pkg/annotation, which this package does not import.
var modes = []string{"auto", "proxy", "direct"}

func text(k key, field func(*Config) *string) key {
	k.set = func(c *Config, v string) error { *field(c) = v; return nil }
	k.get = func(c *Config) string { return *field(c) }
	return k
}

// credential returns a key with a required text.
func credential(k key, field func(*Config) *string) key {
	k = text(k, field)
	k.check = func(c *Config) error {
		switch v := *field(c); {
		case v == "":
			return fmt.Errorf("%s is missing: add the %s", k.name, k.doc)
		case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return fmt.Errorf("%s has blanks or control characters in it: check that it was pasted whole", k.name)
		}
		return nil
	}
	return k
}

func duration(k key, field func(*Config) *time.Duration) key {
	k.set = func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("is not a duration above 0; write a number with a unit, for example %s", k.example)
		}
		*field(c) = d
		return nil
	}
	k.get = func(c *Config) string {
		if d := *field(c); d > 0 {
			return d.String()
		}
		return ""
	}
	return k
}

// parseBool accepts the words that gcfg, the parser of upstream's provider, accepts.
func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}
