"""Names of rooms, devices and things, for the lists that a grammar of intents leaves to each household.

Each kind of device has names of its own, so that a sentence tells what it is about: "start the mower" and "start the
hoover" must not be one text with two intents.
"""

from __future__ import annotations


def _words(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.replace("\n", " ").split(","))


PLACES: dict[str, tuple[str, ...]] = {
    "area": _words(
        "attic, basement, bathroom, bedroom, dining room, garage, garden, guest room, hallway, kitchen, laundry room, "
        "living room, nursery, office, playroom, porch, study, workshop, pantry, sun room"
    ),
    "floor": _words("ground, first, second, top, upper, lower, main"),
    "zone": _words("home, work, school, the gym, the office, grandma's house, the station, the cabin"),
}

# what {name} may be, for each domain of devices that a template asks for
DEVICES: dict[str, tuple[str, ...]] = {
    "light": _words(
        "bedside lamp, ceiling light, christmas lights, desk lamp, fairy lights, floor lamp, reading light, spotlights"
    ),
    "switch": _words("aquarium pump, boiler, coffee maker, heater plug, kettle, towel rail"),
    "fan": _words("ceiling fan, desk fan, extractor fan, tower fan"),
    "media_player": _words("apple tv, bedroom speaker, kitchen radio, record player, soundbar, stereo, television"),
    "input_boolean": _words("guest mode, holiday mode, night mode"),
    "climate": _words("air conditioner, heat pump, radiator, thermostat, underfloor heating"),
    "cover": _words("awning, back curtain, garage door, left blind, roof shade, roller shutter"),
    "valve": _words("garden tap, gas valve, irrigation valve, main water valve, sprinkler valve"),
    "lock": _words("back door lock, bike shed lock, front door, patio door"),
    "binary_sensor": _words(
        "cellar leak sensor, doorbell button, motion detector, phone charger, smoke alarm, washer"
    ),
    "sensor": _words("humidity sensor, outdoor thermometer, power meter, rain gauge"),
    "person": _words("alice, ben, carla, dmitri, emma, farid, grace"),
    "vacuum": _words("dust buster, hoover, robot vacuum, rosie, sweeper"),
    "lawn_mower": _words("grass cutter, lawn robot, mowbot, shaun"),
    "scene": _words("bedtime, dinner party, movie night, relax, romantic, sunrise"),
    "script": _words("good morning routine, leaving home routine, morning briefing, pet feeder routine"),
    "button": _words("gate opener, reboot router, ring the bell"),
    "input_button": _words("reset counter, water the plants"),
    "weather": _words("amsterdam, berlin, boston, lisbon, london, oslo, the mountains"),
    "todo": _words("chores, garden jobs, holiday packing, house repairs, school, work"),
}

# what people say where a template takes any words
FREE_TEXT: dict[str, tuple[str, ...]] = {
    "message": _words(
        "breakfast is on the table, dinner is ready, it is time for bed, please come downstairs, "
        "someone is at the door, the bus leaves in ten minutes, the guests have arrived, the movie is about to start, "
        "we are leaving now, your laundry is done, practice starts at six, the car is outside"
    ),
    "search_query": _words(
        "abbey road, bohemian rhapsody, classic jazz, daft punk, david bowie, kind of blue, miles davis, radiohead, "
        "some piano music, the beatles, the daily news, the lion king, whale sounds, women of soul"
    ),
    "timer_name": _words("bread, egg, homework, laundry, meditation, oven, pasta, pizza, tea, workout"),
    "timer_command": _words(
        "close the blinds, lock the front door, open the garage, pause the music, start the vacuum, "
        "turn off the heating, turn off the lights, turn on the coffee maker"
    ),
    "shopping_list_item": _words(
        "apples, bananas, bread, butter, cat food, cheese, coffee beans, dish soap, eggs, flour, milk, olive oil, "
        "oranges, pasta, rice, tea bags, toilet paper, tomatoes"
    ),
    "todo_list_item": _words(
        "book the dentist, call the plumber, change the filters, clean the gutters, fix the fence, mow the lawn, "
        "pack the suitcase, paint the shed, pay the rent, plant the bulbs, return the books, water the roses"
    ),
}
