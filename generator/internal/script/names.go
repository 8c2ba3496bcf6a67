package script

// NamedStruct is a struct in a script's reply, with its Go name.
type NamedStruct struct {
	Name   string
	Fields []Field
}

// ResultName returns the Go name of the struct in the reply. The reply is the struct or a list of them.
func (s *Script) ResultName() string {
	if s.Returns.Type.Kind == Struct {
		return s.Name + "Result"
	}
	return s.Name + "Item"
}

// FieldName returns the Go name of the struct in a field. The field is the struct or a list of them.
func FieldName(structName string, f Field) string { return structName + Camel(f.Name) }

// Structs returns the structs of the reply, inner structs first.
func (s *Script) Structs() []NamedStruct {
	if s.Returns.Kind != ReturnValue {
		return nil
	}
	return structs(s.ResultName(), s.Returns.Type)
}

func structs(name string, t Type) []NamedStruct {
	if t.Elem != nil {
		return structs(name, *t.Elem)
	}
	if t.Kind != Struct {
		return nil
	}
	all := []NamedStruct{{name, t.Fields}}
	for _, f := range t.Fields {
		all = append(all, structs(FieldName(name, f), f.Type)...)
	}
	return all
}

// EnumName returns the Go name of the type of an enum argument.
func (s *Script) EnumName(p Param) string { return s.Name + Camel(p.Name) }

// ReplyDecoder returns the Go name of the function that reads the reply.
func (s *Script) ReplyDecoder() string { return "decode" + s.Name + "Reply" }

// Decoder returns the Go name of the function that reads the struct.
func (t NamedStruct) Decoder() string { return "decode" + t.Name }

// Declares returns the Go names that the script's file declares. It leaves out names that no other file can
// declare.
func (s *Script) Declares() []string {
	names := []string{s.Name + "Params", s.Name + "SHA1", s.Name + "SHA256", s.ReplyDecoder()}
	for _, p := range s.Args {
		if p.Type.Base != EnumType {
			continue
		}
		names = append(names, s.EnumName(p))
		for _, value := range p.Type.Values {
			names = append(names, s.EnumName(p)+ValueName(value))
		}
	}
	for _, t := range s.Structs() {
		names = append(names, t.Name, t.Decoder())
	}
	return names
}

// Methods returns the names of the methods that the script adds to Scripts.
func (s *Script) Methods() []string {
	names := []string{s.Name, s.Name + "Batch"}
	if s.Mode.Cached {
		names = append(names, s.Name+"Cached")
	}
	return names
}
