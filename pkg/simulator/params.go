// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// numberBits are the sizes of Java's integer types.
var numberBits = map[string]int{"short": 16, "integer": 32, "long": 64}

// mapEntry is one element of a map parameter, name[index].key=value.
type mapEntry map[string]string

// processParams validates and resolves the command's parameters in their order and returns the first error.
func (c *call) processParams() *apiError {
	c.refs = map[string]ref{}
	c.lists = map[string][]ref{}
	c.maps = map[string][]mapEntry{}
	for k, v := range c.req.values {
		if i := strings.IndexFunc(v, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\r' || r == 0x7f }); i >= 0 {
			return paramError("Received value %s containing illegal ASCII non-printable characters for parameter %s", v, k)
		}
	}
	if err := c.checkArrays(); err != nil {
		return err
	}
	for i := range c.api.Params {
		p := &c.api.Params[i]
		if p.Admin && !c.caller.rootAdmin() {
			delete(c.args, strings.ToLower(p.Name))
			continue
		}
		if err := c.processParam(p); err != nil {
			return err
		}
	}
	if err := c.checkPagePair(); err != nil {
		return err
	}
	if strings.HasPrefix(c.api.Name, "list") {
		if err := c.checkTagValues(); err != nil {
			return err
		}
	}
	return c.checkDatabaseText()
}

// checkDatabaseText refuses texts that the database does not take: characters of four bytes in UTF-8, such as emoji. The
// signature of such a call is right. Seen for keyword; that it holds for every text and tag is a guess.
func (c *call) checkDatabaseText() *apiError {
	breaks := func(v string) bool { return strings.ContainsFunc(v, func(r rune) bool { return r > 0xFFFF }) }
	for i := range c.api.Params {
		p := &c.api.Params[i]
		name := strings.ToLower(p.Name)
		bad := p.Type == "string" && breaks(c.args[name])
		for _, e := range c.maps[name] {
			for _, v := range e {
				bad = bad || breaks(v)
			}
		}
		if bad {
			return c.internal(csRuntime, "Incorrect string value in the parameter %s", name)
		}
	}
	return nil
}

// checkTagValues refuses a tag without a value, whether it is a filter or a new tag.
func (c *call) checkTagValues() *apiError {
	for _, e := range c.maps["tags"] {
		if _, ok := e["value"]; !ok {
			key, ok := e["key"]
			if !ok {
				key = "null"
			}
			return invalid("No value is passed in for key %s", key)
		}
	}
	return nil
}

func (c *call) processParam(p *apiParam) *apiError {
	name := strings.ToLower(p.Name)
	v, ok := c.args[name]
	entries := c.mapParam(name)
	switch {
	case p.Type == "map" && entries != nil:
		c.maps[name] = entries
		return nil
	case !ok && p.Required:
		return paramError("Unable to execute API command %s due to missing parameter %s", c.api.lower, name)
	case !ok:
		return nil
	case v == "" && p.Required: // for every type
		return invalid("Invalid value provided for API arg: %s", name)
	}
	switch p.Type {
	case "integer", "long", "short":
		if p.Type == "integer" && strings.TrimSpace(v) == "" { // treated as absent
			delete(c.args, name)
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
			delete(c.args, name)
			return nil
		}
		c.refs[name] = *r
	case "list":
		if c.kindOf(name) == refNone {
			return nil
		}
		for _, id := range elements(v) {
			r, err := c.resolve(name, id, p)
			if err != nil {
				return err
			}
			if r == nil {
				r = new(ref) // an element that refers to no object
			}
			c.lists[name] = append(c.lists[name], *r)
		}
	case "string":
		if len([]rune(v)) > p.maxLength() {
			return paramError("Unable to execute API command %s due to invalid value. Value greater than max allowed length %d for param: %s",
				c.api.lower, p.maxLength(), javaField(c.api.Name, name))
		}
	}
	return nil
}

func (c *call) badValue(name, v string) *apiError {
	return paramError("Unable to execute API command %s due to invalid value %s for parameter %s", c.api.lower, v, name)
}

// elements splits a comma-separated list; it ignores empty elements.
func elements(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
}

// badRef is CloudStack's error for unknown, malformed and empty ids.
func (c *call) badRef(name, v string) *apiError {
	return paramError("Unable to execute API command %s due to invalid value. Invalid parameter %s value=%s due to incorrect long value format, "+
		"or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.", c.api.lower, name, v)
}

func (c *call) kindOf(name string) refKind {
	if k, ok := c.cmd.refs[name]; ok {
		return k
	}
	return commonRefs[name]
}

// uuidForm matches UUIDs.
var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// resolve looks up an id. Parameters without since also accept the internal id, which is not checked. Optional
// parameters with since ignore values that are not UUIDs; resolve then returns nil.
func (c *call) resolve(name, v string, p *apiParam) (*ref, *apiError) {
	kind := c.kindOf(name)
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case v == "-1":
		return &ref{id: -1}, nil
	case uuidForm.MatchString(v):
	case p.Since != "" && !p.Required:
		return nil, nil
	case p.Since != "" || err != nil:
	case n < 1:
		return nil, paramError("Unable to execute API command %s due to invalid value. Invalid value provided for API arg: %s", c.api.lower, name)
	default:
		return &ref{id: n, obj: c.st.byInternalID(kind, n)}, nil
	}
	obj, id := c.st.byUUID(kind, v)
	if obj == nil {
		return nil, c.badRef(name, v)
	}
	return &ref{id: id, obj: obj}, nil
}

// arrayName matches valid names of array elements.
var arrayName = regexp.MustCompile(`^[^\[\].]+\[[+-]?[0-9]{1,9}\]\.[^\[\]]+$`)

// checkArrays refuses malformed names of array elements, whether or not they are parameters of the command.
func (c *call) checkArrays() *apiError {
	for k := range c.args {
		if strings.IndexByte(k, '[') > 0 && !arrayName.MatchString(k) {
			return errf(codeMalformed, csGeneric, "Unable to decode parameter %s; if specifying an object array, please use parameter[index].field=XXX, "+
				"e.g. userGroupList[0].group=httpGroup", k)
		}
	}
	return nil
}

// mapParam collects the parameters name[i].key=value in the order of their indexes; keys keep their case.
func (c *call) mapParam(name string) []mapEntry {
	byIndex := map[int64]mapEntry{}
	for _, p := range c.req.raw {
		param, rest, ok := strings.Cut(p.name, "[")
		if !ok || !strings.EqualFold(param, name) {
			continue
		}
		num, key, _ := strings.Cut(rest, "].")
		n, err := strconv.ParseInt(num, 10, 32)
		if err != nil {
			continue
		}
		if byIndex[n] == nil {
			byIndex[n] = mapEntry{}
		}
		byIndex[n][key] = p.value
	}
	if len(byIndex) == 0 {
		return nil
	}
	idx := make([]int64, 0, len(byIndex))
	for n := range byIndex {
		idx = append(idx, n)
	}
	slices.Sort(idx)
	out := make([]mapEntry, 0, len(idx))
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
	"createLoadBalancerRule.name": "loadBalancerRuleName", "updateLoadBalancerRule.name": "loadBalancerName",
	"listLoadBalancerRules.name": "loadBalancerRuleName", "createLoadBalancer.name": "loadBalancerName", "createLoadBalancer.sourceipaddress": "sourceIp",
	"createLBStickinessPolicy.name": "lbStickinessPolicyName", "createLBStickinessPolicy.methodname": "stickinessMethodName", ".traffictype": "trafficType",
	"associateIpAddress.ipaddress": "ipAddress", "listPublicIpAddresses.ipaddress": "ipAddress", "addNicToVirtualMachine.ipaddress": "ipaddr",
	"addNicToVirtualMachine.macaddress": "macaddr", ".account": "accountName", ".displaytext": "displayText",
	".displayname": "displayName", ".resourcetype": "resourceType", ".resourcetypename": "resourceTypeName", ".networkdomain": "networkDomain",
	".apikeyaccess": "apiKeyAccess", ".newname": "newName", ".accountid": "accountUUID", ".roletype": "roleType",
	"createDomain.name": "domainName", "updateDomain.name": "domainName", "listDomains.name": "domainName", "createDomain.domainid": "domainUUID",
	"createRole.name": "roleName", "updateRole.name": "roleName", "listRoles.name": "roleName", "importRole.name": "roleName",
	"createRole.description": "roleDescription", "updateRole.description": "roleDescription", "importRole.description": "roleDescription",
	"listAccounts.name": "searchName", "createAccount.timezone": "timeZone", "createAccount.userid": "userUUID", "createUser.userid": "userUUID",
}
