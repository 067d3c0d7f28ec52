package table

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lancesql/internal/errs"
	"lancesql/lance/pb"
)

// What the message library lets pass and this format does not: two members of a oneof, and known fields of another
// wire type, which it takes for unknown ones.

const (
	reuseInlineField      = 1 // of the details
	reuseExternalField    = 2
	reuseVersionsField    = 1 // of the content
	reuseTransitionsField = 2
	reuseSourcesField     = 1 // of a transition
	reuseDestinationField = 2
	reuseOrderedField     = 3
	reusePartitionField   = 4
)

// decodeReuseDetails parses the details message and demands exactly one place of the content.
func decodeReuseDetails(object string, b []byte) (*pb.FragmentReuseIndexDetails, error) {
	details := &pb.FragmentReuseIndexDetails{}
	if err := proto.Unmarshal(b, details); err != nil {
		return nil, errs.Corrupt(object, -1, "fragment reuse details: %v", err)
	}
	if err := noMistypedFields(object, details.ProtoReflect()); err != nil {
		return nil, err
	}
	n := 0
	walkFields(b, func(number protowire.Number, _ []byte) bool {
		if number == reuseInlineField || number == reuseExternalField {
			n++
		}
		return true
	})
	if n != 1 {
		return nil, errs.Corrupt(object, -1, "fragment reuse details with %d contents", n)
	}
	return details, nil
}

// inlineReuse returns the bytes of the inline content as they stand.
func inlineReuse(object string, details []byte) (content []byte, err error) {
	err = errs.Corrupt(object, -1, "fragment reuse details without content")
	walkFields(details, func(number protowire.Number, value []byte) bool {
		if number == reuseInlineField {
			content, err = value, nil
		}
		return true
	})
	return content, err
}

// checkReuseWire checks the content's bytes b, decoded as content, and tells for each transition whether its mapping is
// of a known kind. A record of an unknown kind beside versions and transitions makes the whole history unsupported: it
// may have moved any fragment.
func checkReuseWire(object string, b []byte, content *pb.FragmentReuseContent) (known []bool, err error) {
	if err := noMistypedFields(object, content.ProtoReflect()); err != nil {
		return nil, err
	}
	walkFields(b, func(number protowire.Number, value []byte) bool {
		switch number {
		case reuseVersionsField:
		case reuseTransitionsField:
			ok, bad := mappingIsKnown(object, value)
			if bad != nil {
				err = bad
				return false
			}
			known = append(known, ok)
		default:
			err = unsupportedRecord(object, number)
			return false
		}
		return true
	})
	return known, err
}

// mappingIsKnown counts the mappings of a transition. Fields of other numbers are ordinary metadata beside a known
// mapping, and may be a mapping where there is none.
func mappingIsKnown(object string, transition []byte) (known bool, err error) {
	mappings, others := 0, 0
	walkFields(transition, func(number protowire.Number, _ []byte) bool {
		switch number {
		case reuseSourcesField, reuseDestinationField:
		case reuseOrderedField, reusePartitionField:
			mappings++
		default:
			others++
		}
		return true
	})
	switch {
	case mappings > 1:
		return false, errs.Corrupt(object, -1, "a transition with %d mappings", mappings)
	case mappings == 0 && others == 0:
		return false, errs.Corrupt(object, -1, "a transition without a mapping")
	}
	return mappings == 1, nil
}

// walkFields visits the fields of a message that was decoded before; value is that of a length-delimited field.
func walkFields(b []byte, visit func(number protowire.Number, value []byte) bool) {
	for len(b) > 0 {
		number, kind, head := protowire.ConsumeTag(b)
		if head < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, b[head:])
		if size < 0 {
			return
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b[head:])
		}
		if !visit(number, value) {
			return
		}
		b = b[head+size:]
	}
}

// noMistypedFields refuses, in m and all messages below it, unknown fields with the number of a known one.
func noMistypedFields(object string, m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	for _, n := range unknownNumbers(m.GetUnknown()) {
		if fields.ByNumber(protoreflect.FieldNumber(n)) != nil {
			return errs.Corrupt(object, -1, "field %d of %s has the wrong wire type", n, m.Descriptor().Name())
		}
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() != protoreflect.MessageKind {
			return true
		}
		if !fd.IsList() {
			err = noMistypedFields(object, v.Message())
			return err == nil
		}
		for i := range v.List().Len() {
			if err = noMistypedFields(object, v.List().Get(i).Message()); err != nil {
				return false
			}
		}
		return true
	})
	return err
}
