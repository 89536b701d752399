package clienttest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/seed-30da4c49/sash/sashredis"
)

// A scriptStore runs scripts as a server does, on the few commands that they use, at a time that
// a test sets. Keys expire at an instant, as keys of a server do, unlike keys of miniredis. A
// run takes some tens of microseconds, as the interpreter and what it has compiled are kept. It
// is for use by one goroutine at a time.
type scriptStore struct {
	now     int64 // microseconds since 1970
	values  map[string]*storeValue
	touched int      // members that commands have read or written during the latest run
	expired []string // keys that the latest run has found expired
}

// A storeValue is the text of a string, or the members of a sorted set, all of score 0.
type storeValue struct {
	text    string
	members []string // sorted; not nil: it is a sorted set
	expires int64    // milliseconds since 1970; 0: never
}

func newScriptStore() *scriptStore { return &scriptStore{values: map[string]*storeValue{}} }

// An interpreter is a Lua state with the table redis. One that is not in use has no store.
type interpreter struct {
	*lua.LState
	store *scriptStore
}

var (
	interpreters = sync.Pool{New: func() any { return newInterpreter() }}
	compiled     sync.Map // *lua.FunctionProto, by digest
)

func newInterpreter() *interpreter {
	in := &interpreter{LState: lua.NewState()}
	table := in.NewTable()
	table.RawSetString("call", in.NewFunction(func(*lua.LState) int { return in.call() }))
	table.RawSetString("error_reply", in.NewFunction(func(*lua.LState) int {
		reply := in.NewTable()
		reply.RawSetString("err", in.Get(1))
		in.Push(reply)
		return 1
	}))
	in.SetGlobal("redis", table)
	return in
}

// run runs s, and returns its reply.
func (s *scriptStore) run(script *sashredis.Script, keys, args []string) (string, error) {
	proto, ok := compiled.Load(script.SHA1())
	if !ok {
		chunk, err := parse.Parse(strings.NewReader(script.Text()), "script")
		if err != nil {
			return "", err
		}
		made, err := lua.Compile(chunk, "script")
		if err != nil {
			return "", err
		}
		proto, _ = compiled.LoadOrStore(script.SHA1(), made)
	}
	in := interpreters.Get().(*interpreter)
	defer interpreters.Put(in)
	in.store, s.touched, s.expired = s, 0, s.expired[:0]
	in.SetGlobal("KEYS", in.list(keys))
	in.SetGlobal("ARGV", in.list(args))
	in.Push(in.NewFunctionFromProto(proto.(*lua.FunctionProto)))
	if err := in.PCall(0, 1, nil); err != nil {
		return "", fmt.Errorf("ERR %w", err)
	}
	defer in.Pop(1)
	switch reply := in.Get(-1).(type) {
	case lua.LString:
		return string(reply), nil
	case *lua.LTable:
		return "", errors.New(reply.RawGetString("err").String())
	default:
		return "", fmt.Errorf("ERR a reply of type %v", reply.Type())
	}
}

func (in *interpreter) list(texts []string) *lua.LTable {
	table := in.CreateTable(len(texts), 0)
	for _, text := range texts {
		table.Append(lua.LString(text))
	}
	return table
}

// call is redis.call.
func (in *interpreter) call() int {
	args := make([]string, in.GetTop())
	for i := range args {
		args[i] = in.ToString(i + 1)
	}
	switch reply := in.store.command(args).(type) {
	case nil:
		in.Push(lua.LFalse)
	case string:
		in.store.touched++
		in.Push(lua.LString(reply))
	case int:
		in.Push(lua.LNumber(reply))
	case []string:
		in.store.touched += len(reply)
		in.Push(in.list(reply))
	case error:
		in.RaiseError("%v", reply)
	}
	return 1
}

// value returns the value of a key, or nil. A key whose time is over is gone.
func (s *scriptStore) value(key string) *storeValue {
	v := s.values[key]
	if v != nil && v.expires != 0 && s.now >= v.expires*1000 {
		delete(s.values, key)
		s.expired = append(s.expired, key)
		return nil
	}
	return v
}

// command carries a command out.
func (s *scriptStore) command(args []string) any {
	name := args[0]
	if name == "TIME" {
		return []string{strconv.FormatInt(s.now/1e6, 10), strconv.FormatInt(s.now%1e6, 10)}
	}
	key, v := args[1], s.value(args[1])
	if v != nil && name != "DEL" && name != "SET" && name != "PEXPIRE" && name != "PEXPIREAT" && (name[0] == 'Z') != (v.members != nil) {
		return errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	}
	switch name {
	case "GET":
		if v == nil {
			return nil
		}
		return v.text
	case "SET":
		s.touched++
		s.values[key] = &storeValue{text: args[2]}
		if args[3] == "KEEPTTL" {
			s.values[key].expires = v.expires // no script keeps the expiry of a key that is not there
			return 1
		}
		return s.expire(key, args[3], args[4])
	case "DEL":
		delete(s.values, key)
		return 1
	case "PEXPIRE":
		return s.expire(key, "PX", args[2])
	case "PEXPIREAT":
		return s.expire(key, "PXAT", args[2])
	case "ZADD", "ZREM":
		return s.change(key, v, name == "ZADD", args[len(args)-1])
	}
	if v == nil {
		v = &storeValue{members: []string{}}
	}
	return s.sorted(key, v, args)
}

func (s *scriptStore) expire(key, option, text string) any {
	v, at := s.values[key], int64(0)
	if _, err := fmt.Sscan(text, &at); err != nil {
		return err
	}
	if v == nil {
		return 0
	}
	if option == "PX" {
		at += s.now / 1000
	}
	v.expires = at
	if s.now >= at*1000 {
		delete(s.values, key)
	}
	return 1
}

// change adds a member to a set, or removes it.
func (s *scriptStore) change(key string, v *storeValue, adds bool, member string) any {
	if v == nil {
		v = &storeValue{members: []string{}}
		s.values[key] = v
	}
	s.touched++
	i, found := slices.BinarySearch(v.members, member)
	switch {
	case adds && !found:
		v.members = slices.Insert(v.members, i, member)
	case !adds && found:
		v.members = slices.Delete(v.members, i, i+1)
	}
	if len(v.members) == 0 {
		delete(s.values, key)
	}
	return 1
}

// sorted carries a command out that reads a set, or removes a range of it.
func (s *scriptStore) sorted(key string, v *storeValue, args []string) any {
	switch args[0] {
	case "ZRANK":
		i, found := slices.BinarySearch(v.members, args[2])
		if !found {
			return nil
		}
		return i
	case "ZRANGE":
		from, _ := strconv.Atoi(args[2])
		to, _ := strconv.Atoi(args[3])
		return slices.Clone(v.members[min(from, len(v.members)):min(to+1, len(v.members))])
	case "ZLEXCOUNT":
		return max(bound(v, args[3], false)-bound(v, args[2], true), 0)
	case "ZRANGEBYLEX":
		return limited(v.members[bound(v, args[2], true):max(bound(v, args[2], true), bound(v, args[3], false))], args[4:], false)
	case "ZREVRANGEBYLEX":
		return limited(v.members[bound(v, args[3], true):max(bound(v, args[3], true), bound(v, args[2], false))], args[4:], true)
	case "ZREMRANGEBYLEX":
		from := bound(v, args[2], true)
		to := max(from, bound(v, args[3], false))
		s.touched += to - from
		if v.members = slices.Delete(v.members, from, to); len(v.members) == 0 {
			delete(s.values, key)
		}
		return to - from
	}
	return fmt.Errorf("ERR the store of the model does not know the command %q: teach it", args[0])
}

// bound returns how many members are below text, a bound such as "[a" or "(a": the first of a
// range, or the one after its last.
func bound(v *storeValue, text string, first bool) int {
	i, found := slices.BinarySearch(v.members, text[1:])
	if found && (text[0] == '(') == first {
		i++
	}
	return i
}

// limited returns members, or as many as LIMIT 0 COUNT says, of the last ones first if reversed.
func limited(members, limit []string, reversed bool) []string {
	members = slices.Clone(members)
	if reversed {
		slices.Reverse(members)
	}
	if len(limit) == 3 {
		n, _ := strconv.Atoi(limit[2])
		members = members[:min(n, len(members))]
	}
	return members
}
