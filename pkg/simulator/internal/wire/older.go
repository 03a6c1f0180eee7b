// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
)

// Older removes the fields that newer releases added from an answer.
func Older(cat *catalogue.Catalogue, buf *bytes.Buffer) error {
	if cat.Hides == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(buf.Bytes()))
	decoder.UseNumber()
	var answer any
	if err := decoder.Decode(&answer); err != nil {
		return err
	}
	hide(cat, "", answer)
	buf.Reset()
	return Encode(buf, answer)
}

func hide(cat *catalogue.Catalogue, key string, value any) {
	switch v := value.(type) {
	case []any:
		if key == "capability" && !cat.RouterTLS {
			withoutTLS(v)
		}
		for _, item := range v {
			hide(cat, key, item)
		}
	case map[string]any:
		for _, field := range cat.Hides[key] {
			delete(v, field)
		}

		for name, member := range v {
			if list, ok := member.([]any); ok && name == "capability" && !cat.RouterTLS {
				v[name] = slices.DeleteFunc(list, isTLSCapability)
				member = v[name]
			}
			hide(cat, name, member)
		}
	}
}

// isTLSCapability reports whether item is the capability of load balancers that terminate TLS.
func isTLSCapability(item any) bool {
	c, ok := item.(map[string]any)
	return ok && c["name"] == catalogue.TLSCapability
}

// withoutTLS removes the protocol ssl from the capabilities of a service.
func withoutTLS(capabilities []any) {
	for _, item := range capabilities {
		c, ok := item.(map[string]any)
		if text, isText := c["value"].(string); ok && isText && c["name"] == "SupportedProtocols" {
			c["value"] = strings.TrimSuffix(text, ", "+catalogue.ProtocolSSL)
		}
	}
}
