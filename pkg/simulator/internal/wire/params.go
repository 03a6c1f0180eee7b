// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// numberBits are the sizes of Java's integer types.
var numberBits = map[string]int{"short": 16, "integer": 32, "long": 64}

// MapEntry is one element of a map parameter, name[index].key=value.
type MapEntry map[string]string

// ProcessParams validates and resolves the command's parameters in their order. It returns the first error.
func (c *Call) ProcessParams() *Error {
	c.Refs = map[string]store.Ref{}
	c.Lists = map[string][]store.Ref{}
	c.Maps = map[string][]MapEntry{}
	for k, v := range c.Req.Values {
		if i := strings.IndexFunc(v, func(r rune) bool {
			return r < 0x20 && r != '\n' && r != '\r' || r == 0x7f
		}); i >= 0 {
			return ParamError("Received value %s containing illegal ASCII non-printable characters for parameter %s", v,
				k)
		}
	}

	if err := c.checkArrays(); err != nil {
		return err
	}

	for i := range c.API.Params {
		p := &c.API.Params[i]
		if p.Admin && !c.Caller.RootAdmin() {
			delete(c.Args, strings.ToLower(p.Name))
			continue
		}
		if err := c.processParam(p); err != nil {
			return err
		}
	}

	for _, name := range strings.Fields(c.Cmd.Without) {
		if c.Has(name) || c.Maps[name] != nil {
			return Errf(CodeInternal, CSGeneric, "the simulator does not implement the parameter %s of %s", name,
				c.API.Name)
		}
	}

	if err := c.checkPagePair(); err != nil {
		return err
	}

	if strings.HasPrefix(c.API.Name, "list") {
		if err := c.CheckTagValues(); err != nil {
			return err
		}
	}

	return c.checkDatabaseText()
}

// checkDatabaseText refuses texts that the database cannot store: characters of four bytes in UTF-8, such as emoji.
// The signature of such a call is valid. Recorded for keyword; that it holds for every text and tag is a guess.
func (c *Call) checkDatabaseText() *Error {
	breaks := func(v string) bool { return strings.ContainsFunc(v, func(r rune) bool { return r > 0xFFFF }) }
	for i := range c.API.Params {
		p := &c.API.Params[i]
		name := strings.ToLower(p.Name)
		bad := p.Type == "string" && breaks(c.Args[name])
		for _, e := range c.Maps[name] {
			for _, v := range e {
				bad = bad || breaks(v)
			}
		}
		if bad {
			return c.Internal(CSRuntime, "Incorrect string value in the parameter %s", name)
		}
	}
	return nil
}

// CheckTagValues refuses a tag without a value, whether it is a filter or a new tag.
func (c *Call) CheckTagValues() *Error {
	for _, e := range c.Maps["tags"] {
		if _, ok := e["value"]; !ok {
			key, ok := e["key"]
			if !ok {
				key = "null"
			}
			return Invalid("No value is passed in for key %s", key)
		}
	}
	return nil
}

func (c *Call) processParam(p *catalogue.Param) *Error {
	name := strings.ToLower(p.Name)
	v, ok := c.Args[name]
	entries := c.mapParam(name)
	switch {
	case p.Type == "map" && entries != nil:
		c.Maps[name] = entries
		return nil
	case !ok && p.Required:
		return ParamError("Unable to execute API command %s due to missing parameter %s", c.API.Lower, name)
	case !ok:
		return nil
	case v == "" && p.Required: // whatever the type
		return Invalid("Invalid value provided for API arg: %s", name)
	}

	switch p.Type {
	case "integer", "long", "short":
		if p.Type == "integer" && strings.TrimSpace(v) == "" { // CloudStack treats it as absent
			delete(c.Args, name)
			return nil
		}
		if _, err := strconv.ParseInt(v, 10, numberBits[p.Type]); err != nil {
			return c.badValue(name, v)
		}
	case "map":
		return c.badValue(name, v) // a plain value instead of name[i].key
	case "uuid":
		r, err := c.resolve(name, v, p)
		if err != nil {
			return err
		}
		if r == nil {
			delete(c.Args, name)
			return nil
		}
		c.Refs[name] = *r
	case "list":
		if c.Cmd.Kind(name) == store.RefNone {
			return nil
		}
		for _, id := range elements(v) {
			r, err := c.resolve(name, id, p)
			if err != nil {
				return err
			}
			if r == nil {
				r = new(store.Ref) // an element that refers to no object
			}
			c.Lists[name] = append(c.Lists[name], *r)
		}
	case "string":
		if len([]rune(v)) > p.MaxLength() {
			return ParamError("Unable to execute API command %s due to invalid value. Value greater than max allowed "+
				"length %d for param: %s",
				c.API.Lower, p.MaxLength(), javaField(c.API.Name, name))
		}
	}

	return nil
}

func (c *Call) badValue(name, v string) *Error {
	return ParamError("Unable to execute API command %s due to invalid value %s for parameter %s", c.API.Lower, v, name)
}

// elements splits a comma-separated list; it ignores empty elements.
func elements(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
}

// BadRef returns CloudStack's error for unknown, malformed and empty ids.
func (c *Call) BadRef(name, v string) *Error {
	return ParamError("Unable to execute API command %s due to invalid value. Invalid parameter %s value=%s due to "+
		"incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the "+
		"field in api cmd class.", c.API.Lower, name, v)
}

// uuidForm matches UUIDs.
var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// resolve looks up an id. Parameters without since also accept the internal id, which need not exist. Optional
// parameters with since ignore values that are not UUIDs; resolve then returns nil.
func (c *Call) resolve(name, v string, p *catalogue.Param) (*store.Ref, *Error) {
	kind := c.Cmd.Kind(name)
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case v == "-1":
		return &store.Ref{ID: -1}, nil
	case uuidForm.MatchString(v):
	case p.Since != "" && !p.Required:
		return nil, nil
	case p.Since != "" || err != nil:
	case n < 1:
		return nil, ParamError("Unable to execute API command %s due to invalid value. Invalid value provided for "+
			"API arg: %s", c.API.Lower, name)
	default:
		return &store.Ref{ID: n, Obj: c.St.ByInternalID(kind, n)}, nil
	}

	obj, id := c.St.ByUUID(kind, v)
	if obj == nil {
		return nil, c.BadRef(name, v)
	}

	return &store.Ref{ID: id, Obj: obj}, nil
}

// arrayName matches valid names of array elements.
var arrayName = regexp.MustCompile(`^[^\[\].]+\[[+-]?[0-9]{1,9}\]\.[^\[\]]+$`)

// checkArrays refuses malformed names of array elements, whether or not they are parameters of the command.
func (c *Call) checkArrays() *Error {
	for k := range c.Args {
		if strings.IndexByte(k, '[') > 0 && !arrayName.MatchString(k) {
			return Errf(CodeMalformed, CSGeneric,
				"Unable to decode parameter %s; if specifying an object array, please use parameter[index].field=XXX, "+
					"e.g. userGroupList[0].group=httpGroup", k)
		}
	}
	return nil
}

// mapParam collects the parameters name[i].key=value in the order of their indexes; keys keep their case.
func (c *Call) mapParam(name string) []MapEntry {
	byIndex := map[int64]MapEntry{}
	for _, p := range c.Req.Raw {
		param, rest, ok := strings.Cut(p.Name, "[")
		if !ok || !strings.EqualFold(param, name) {
			continue
		}
		num, key, _ := strings.Cut(rest, "].")
		n, err := strconv.ParseInt(num, 10, 32)
		if err != nil {
			continue
		}
		if byIndex[n] == nil {
			byIndex[n] = MapEntry{}
		}
		byIndex[n][key] = p.Value
	}

	if len(byIndex) == 0 {
		return nil
	}

	idx := make([]int64, 0, len(byIndex))
	for n := range byIndex {
		idx = append(idx, n)
	}

	slices.Sort(idx)
	out := make([]MapEntry, 0, len(idx))
	for _, n := range idx {
		out = append(out, byIndex[n])
	}

	return out
}

// javaField returns the name of the parameter's Java field, which length errors contain.
func javaField(command, param string) string {
	if f, ok := javaFields[command+"."+param]; ok {
		return f
	}
	if f, ok := javaFields["."+param]; ok {
		return f
	}
	return param
}

var javaFields = map[string]string{
	"createLoadBalancerRule.name":         "loadBalancerRuleName",
	"updateLoadBalancerRule.name":         "loadBalancerName",
	"listLoadBalancerRules.name":          "loadBalancerRuleName",
	"createLoadBalancer.name":             "loadBalancerName",
	"createLoadBalancer.sourceipaddress":  "sourceIp",
	"createLBStickinessPolicy.name":       "lbStickinessPolicyName",
	"createLBStickinessPolicy.methodname": "stickinessMethodName",
	".traffictype":                        "trafficType",
	"associateIpAddress.ipaddress":        "ipAddress",
	"listPublicIpAddresses.ipaddress":     "ipAddress",
	"addNicToVirtualMachine.ipaddress":    "ipaddr",
	"addNicToVirtualMachine.macaddress":   "macaddr",
	".account":                            "accountName",
	".displaytext":                        "displayText",
	".displayname":                        "displayName",
	".resourcetype":                       "resourceType",
	".resourcetypename":                   "resourceTypeName",
	".networkdomain":                      "networkDomain",
	".accountid":                          "accountUUID",
	".roletype":                           "roleType",
	"createDomain.name":                   "domainName",
	"listDomains.name":                    "domainName",
	"createDomain.domainid":               "domainUUID",
	"createRole.name":                     "roleName",
	"listRoles.name":                      "roleName",
	"createRole.description":              "roleDescription",
	"listAccounts.name":                   "searchName",
	"createAccount.timezone":              "timeZone",
	"createAccount.userid":                "userUUID",
	"createUser.userid":                   "userUUID",
}

// TagType finds a type by its name, ignoring case.
func TagType(s string) (*store.TagKind, *Error) {
	for i := range store.TagKinds {
		if strings.EqualFold(store.TagKinds[i].Name, s) {
			return &store.TagKinds[i], nil
		}
	}
	return nil, Invalid("Invalid resource type %s", s)
}

// ValidCIDR reports whether s may be in a rule's source list: a range or a single address, IPv4 or IPv6.
func ValidCIDR(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

var hostName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]$|^[A-Za-z]$`)

// ValidHostName reports whether a name is a valid host name of a VM.
func ValidHostName(s string) bool { return hostName.MatchString(s) }
